// The slots of a spider.

import { get } from "./api.js";
import { act, ask } from "./dialogs.js";
import { h, put, table, theirs } from "./elements.js";
import { page } from "./page.js";
import { date, duration, named, number } from "./text.js";

export function slotsTab(name) {
  const WHY = { blocked: "blocked", delay: "its delay", concurrency: "its concurrency", spider: "another spider", unreachable: "its site, which cannot be reached" };
  const block = async (slot) => {
    const said = await ask({ title: `Block ${slot}`, text: "No worker begins a request of this slot until the time is over.", button: "Continue", fields: [{ name: "seconds", label: "Seconds", type: "number", min: 1, max: 2592000, value: 600, required: true }] });
    if (said) await act("slots/block", { slot, seconds: Number(said.seconds) }, { title: `Block ${slot}?`, button: "Block", danger: true });
  };
  const set = async ({ slot, delay, concurrency, max_pages }) => {
    const said = await ask({ title: `Limits of ${slot}`, text: "All workers together keep these limits until the crawl is finished. An empty field changes nothing.", button: "Continue", fields: [
      { name: "delay", label: "Seconds between two requests", type: "number", min: 0, max: 86400, step: "any", value: delay ?? "" },
      { name: "concurrency", label: "Downloads at a time (0: no limit)", type: "number", min: 0, max: 1000000, value: concurrency ?? "" },
      { name: "max_pages", label: "Pages in the crawl (0: no limit)", type: "number", min: 0, max: 9007199254740991, value: max_pages ?? "" }] });
    if (!said) return;
    const body = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== "").map(([key, value]) => [key, Number(value)]));
    await act("slots/set", { slot, ...body }, { title: `Set the limits of ${slot}?`, button: "Set" });
  };
  // Requests with needs are listed apart, but their slot is the same.
  const slotOf = (s) => s.slot.split("|")[0];
  const buttons = (s) => h("div", { class: "buttons" },
    s.blocked_for
      ? h("button", { class: "small", onclick: () => act("slots/unblock", { slot: slotOf(s) }, { confirm: false }) }, "Unblock")
      : h("button", { class: "small", onclick: () => block(slotOf(s)) }, "Block"),
    h("button", { class: "small", onclick: () => set({ ...s, slot: slotOf(s) }) }, "Set"),
    h("button", { class: "small", onclick: () => act("deny", { url: slotOf(s) }, { title: `Deny all requests to ${slotOf(s)}?`, button: "Deny", danger: true }) }, "Deny"),
    s.is_set && h("button", { class: "small", onclick: () => act("slots/reset", { slot: slotOf(s) }, { title: `Reset the limits of ${slotOf(s)}?`, button: "Reset" }) }, "Reset"));
  const columns = [
    { title: "Slot", lead: true, mark: (s) => s.slot, parts: (s) => theirs(named(s.slot)) },
    { title: "Waiting", num: true, text: (s) => number(s.waiting) },
    { title: "Next in", num: true, text: (s) => (s.next_in >= 0.05 ? (s.next_in < 10 ? `${s.next_in.toFixed(1)} s` : duration(s.next_in)) : "now") },
    { title: "Held back by", text: (s) => (WHY[s.why] ?? "–") + (s.why === "blocked" && s.block_reason ? ` (${s.block_reason})` : "") },
    { title: "Delay", num: true, text: (s) => (s.delay == null ? "–" : `${+s.delay.toFixed(2)} s${s.is_learnt ? " (learnt)" : s.crawl_delay && s.delay === s.crawl_delay ? " (robots.txt)" : s.throttle && s.delay === s.throttle ? " (throttled)" : s.is_set ? " (set)" : ""}`) },
    { title: "Pages", num: true, text: (s) => (s.pages == null ? "–" : `${number(s.pages)}${s.max_pages ? ` of ${number(s.max_pages)}` : ""}${s.dropped ? `, ${number(s.dropped)} dropped` : ""}`) },
    { title: "Concurrency", num: true, text: (s) => (s.concurrency ? `${s.active} of ${s.concurrency}` : "–") },
    ...(page.about.actions ? [{ title: "", mark: (s) => [s.slot, s.blocked_for > 0, s.is_set], parts: buttons }] : []),
  ];
  const shown = table(columns, (slot) => slot.slot);
  const allow = (d) => act("allow", { url: d.text }, { title: `Allow ${d.text} again?`, button: "Allow" });
  const denials = table([
    { title: "Denied host or pattern", lead: true, mark: (d) => d.text, parts: (d) => theirs(d.text) },
    { title: "Since", text: (d) => date(d.since) },
    ...(page.about.actions ? [{ title: "", mark: (d) => d.text, parts: (d) => h("button", { class: "small", onclick: () => allow(d) }, "Allow") }] : []),
  ], (d) => d.text);
  const note = h("p", { class: "note" }), empty = h("p", { class: "empty" }, "No slot has waiting requests.");
  const load = async () => {
    const { slots, total, looked_at, denied } = await get("slots", { spider: name });
    shown.show(slots);
    denials.show(denied);
    denials.element.hidden = !denied.length;
    empty.hidden = slots.length > 0;
    shown.element.hidden = note.hidden = !slots.length;
    const all = looked_at < total ? `Still reading: ${number(looked_at)} of ${number(total)} slots so far. ` : "";
    put(note, `${all}The blocked slots, and the ${Math.min(50, slots.length)} with the most requests${total > slots.length ? ` of ${number(total)}` : ""}.`);
  };
  return { id: "slots", title: "Slots", element: h("div", {}, note, shown.element, empty, denials.element), load };
}
