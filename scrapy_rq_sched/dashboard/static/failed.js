// The failed list of a spider.

import { get } from "./api.js";
import { act, say } from "./dialogs.js";
import { h, keyed, link, put, theirs } from "./elements.js";
import { page } from "./page.js";
import { clean, counted, date, named, number } from "./text.js";

export function failedTab(name) {
  const list = h("div"), note = h("p", { class: "note" }), empty = h("p", { class: "empty" }, "The failed list is empty.");
  const input = h("input", { type: "search", name: "find", autocomplete: "off", spellcheck: "false", placeholder: "https://… (* stands for any text)" });
  const search = h("form", { class: "row search", hidden: true, onsubmit: (event) => event.preventDefault() }, h("label", {}, "Search by URL", input));
  // A text without a star is searched anywhere in a URL.
  const pattern = () => { const text = input.value.trim(); return text ? (text.includes("*") ? text : `*${text}*`) : null; };
  let timer = 0;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => page.view.refresh(), 250); });
  const again = (body, title) => act("failed/requeue", body, { title, button: "Try again" });
  const forget = (body, title) => act("failed/forget", body, { title, button: "Forget", danger: true });
  const pair = (body, what, label = "") => page.about.actions && h("div", { class: "buttons" },
    h("button", { class: "small", onclick: () => again(body, `Try ${what} again?`) }, `Try ${label}again`),
    h("button", { class: "small danger", onclick: () => forget(body, `Forget ${what}?`) }, label ? "Forget all" : "Forget"));
  const entry = (one) => ({ element: h("div", { class: "entry", "data-id": one.id },
    one.url ? link(one.url) : theirs((one.data ?? one.data_hex ?? "").slice(0, 300)),
    h("small", { class: "quiet theirs" }, clean([date(one.time), one.kind, one.worker && `worker ${one.worker}`, one.deaths && counted(one.deaths, "death"), one.slot && `slot ${one.slot}`].filter(Boolean).join(" · "))),
    one.reason !== one.error && h("small", { class: "theirs" }, clean(one.reason)),
    one.size && h("small", { class: "quiet" }, `A seed of ${number(one.size)} bytes, of which only the beginning was kept`),
    one.entry_size && h("small", { class: "quiet" }, `An entry of ${number(one.entry_size)} bytes, of which only the beginning is shown`),
    one.traceback && h("details", {}, h("summary", {}, "Traceback"), h("pre", { class: "theirs" }, clean(one.traceback))),
    one.history && h("small", { class: "quiet theirs" }, clean(one.history)),
    one.id && pair({ id: one.id }, "this entry")) });
  const group = ({ error }) => {
    const count = h("b"), latest = h("small", { class: "quiet" }), hosts = h("div", { class: "hosts", "aria-label": "Hosts" });
    const others = h("small", { class: "quiet" }), entries = h("div"), buttons = h("div");
    let found = [], total = 0, mark = "", chosen = null;
    const more = h("button", { class: "small", onclick: () => fill(found.length).catch(failed) }, "More");
    const failed = (problem) => say(problem.message, true);
    const fill = async (offset) => {
      const got = await get("failed", { spider: name, error, host: chosen, url: pattern(), offset, limit: 20 });
      found = offset ? [...found, ...got.failed] : got.failed;
      total = got.total;
      keyed(entries, found, (one) => `${one.id} ${one.time} ${one.data ?? one.data_hex}`, entry);
      more.hidden = found.length >= total;
    };
    const host = ({ host: its }) => {
      const text = h("span", { class: "theirs" }), many = h("b");
      const press = () => { chosen = chosen === its ? null : its; for (const one of hosts.children) one.setAttribute("aria-pressed", one === button && chosen !== null); refill(); };
      const button = h("button", { class: "small", "aria-pressed": "false", onclick: press }, text, many);
      return { element: button, update: (one) => { put(text, one.host ? named(one.host) : "no host"); put(many, number(one.count)); } };
    };
    const element = h("details", { class: "group" },
      h("summary", {}, count, theirs(error), latest),
      h("div", { class: "inside" }, hosts, others, buttons, entries, more));
    const refill = () => { if (element.open) fill(0).catch(failed); };
    element.addEventListener("toggle", refill);
    const update = (one) => {
      put(count, number(one.count));
      put(latest, date(one.latest));
      keyed(hosts, one.hosts, (its) => its.host, host);
      if (chosen !== null && !one.hosts.some((its) => its.host === chosen)) chosen = null;
      others.hidden = !one.more_hosts;
      put(others, `and ${counted(one.more_hosts, "other host")}`);
      const now = `${one.count} ${one.latest} ${pattern() ?? ""}`;
      if (mark === now) return;
      if (mark) refill();
      mark = now;
      const url = pattern();
      const pressed = pair({ error, ...(url && { url }) }, url ? "all entries of this kind with such a URL" : "all entries of this kind", "all ");
      if (pressed) buttons.replaceChildren(pressed);
    };
    return { element, update };
  };
  const load = async () => {
    const url = pattern();
    const { counts, total, looked_at, problem } = await get("failed/counts", { spider: name, url });
    if (url !== pattern()) return;
    keyed(list, counts, (one) => one.error, group);
    search.hidden = note.hidden = !total;
    empty.hidden = counts.length > 0;
    put(empty, total ? "No entry has such a URL." : "The failed list is empty.");
    const entries = looked_at < total ? `The latest ${number(looked_at)} of ${number(total)} entries` : counted(total, "entry").replace("entrys", "entries");
    put(note, `${entries}, by kind of error. ${clean(problem)}`);
  };
  return { id: "failed", title: "Failed", element: h("div", {}, note, search, list, empty), load };
}
