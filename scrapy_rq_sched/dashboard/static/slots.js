// The slots of a spider.

import { get } from "./api.js";
import { act } from "./dialogs.js";
import { h, put, table, theirs } from "./elements.js";
import { page } from "./page.js";
import { counted, date, left, named, number } from "./text.js";

/** Return which slots are shown: so many, of *total* ones. */
function selection(shown, total) {
  if (shown === total) return `${counted(total, "slot")}.`;
  return `The blocked slots, and the ${Math.min(50, shown)} with the most requests, of ${number(total)}.`;
}

export function slotsTab(name) {
  const WHY = { blocked: "blocked", delay: "its delay", concurrency: "its concurrency", spider: "another spider", unreachable: "its site, which cannot be reached" };
  const block = (slot) => act("slots/block", ({ seconds }) => ({ slot, seconds: Number(seconds) }), {
    title: `Block ${slot}?`, button: "Block", danger: true,
    fields: [{ name: "seconds", label: "Seconds", type: "number", min: 1, max: 2592000, value: 600, required: true }],
  });
  const set = ({ slot, delay, concurrency, max_pages }) => act("slots/set", (values) => {
    const given = Object.entries(values).filter(([, value]) => value !== "").map(([key, value]) => [key, Number(value)]);
    return given.length ? { slot, ...Object.fromEntries(given) } : null;
  }, {
    title: `Limits of ${slot}`, text: "An empty field changes nothing.", button: "Set", fields: [
      { name: "delay", label: "Seconds between two requests", type: "number", min: 0, max: 86400, step: "any", value: delay ?? "" },
      { name: "concurrency", label: "Downloads at a time (0: no limit)", type: "number", min: 0, max: 1000000, value: concurrency ?? "" },
      { name: "max_pages", label: "Pages in the crawl (0: no limit)", type: "number", min: 0, max: 9007199254740991, value: max_pages ?? "" }],
  });
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
    { title: "Next in", num: true, hint: "The next turn: when a worker may begin a request of the slot", text: (s) => (s.next_in >= 0.05 ? left(s.next_in) : "now") },
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
    put(note, all + selection(slots.length, total));
  };
  return { id: "slots", title: "Slots", element: h("div", {}, note, shown.element, empty, denials.element), load };
}
