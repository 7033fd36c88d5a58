// The failed list of a spider.

import { get } from "./api.js";
import { act, say } from "./dialogs.js";
import { h, keyed, link, put, theirs } from "./elements.js";
import { page } from "./page.js";
import { clean, counted, date, number } from "./text.js";

export function failedTab(name) {
  const list = h("div"), note = h("p", { class: "note" }), empty = h("p", { class: "empty" }, "The failed list is empty.");
  const again = (body, title) => act("failed/requeue", body, { title, button: "Try again" });
  const forget = (body, title) => act("failed/forget", body, { title, button: "Forget", danger: true });
  const pair = (body, what, label = "") => page.about.actions && h("div", { class: "buttons" },
    h("button", { class: "small", onclick: () => again(body, `Try ${what} again?`) }, `Try ${label}again`),
    h("button", { class: "small danger", onclick: () => forget(body, `Forget ${what}?`) }, label ? "Forget all" : "Forget"));
  const entry = (one) => ({ element: h("div", { class: "entry", "data-id": one.id },
    one.url ? link(one.url) : theirs((one.data ?? one.data_hex ?? "").slice(0, 300)),
    h("small", { class: "quiet theirs" }, clean([date(one.time), one.kind, one.worker && `worker ${one.worker}`, one.deaths && counted(one.deaths, "death"), one.slot && `slot ${one.slot}`].filter(Boolean).join(" · "))),
    one.size && h("small", { class: "quiet" }, `A seed of ${number(one.size)} bytes, of which only the beginning was kept`),
    one.entry_size && h("small", { class: "quiet" }, `An entry of ${number(one.entry_size)} bytes, of which only the beginning is shown`),
    one.traceback && h("details", {}, h("summary", {}, "Traceback"), h("pre", { class: "theirs" }, clean(one.traceback))),
    one.history && h("small", { class: "quiet theirs" }, clean(one.history)),
    one.id && pair({ id: one.id }, "this entry")) });
  const group = ({ reason }) => {
    const count = h("b"), latest = h("small", { class: "quiet" }), entries = h("div");
    let found = [], total = 0, mark = "";
    const more = h("button", { class: "small", onclick: () => fill(found.length) }, "More");
    const fill = async (offset) => {
      const page = await get("failed", { spider: name, reason, offset, limit: 20 });
      found = offset ? [...found, ...page.failed] : page.failed;
      total = page.total;
      keyed(entries, found, (one) => `${one.id} ${one.time} ${one.data ?? one.data_hex}`, entry);
      more.hidden = found.length >= total;
    };
    const element = h("details", { class: "group" },
      h("summary", {}, count, theirs(reason), latest),
      h("div", { class: "inside" }, pair({ reason }, "all entries with this reason", "all "), entries, more));
    const refill = () => { if (element.open) fill(0).catch((error) => say(error.message, true)); };
    element.addEventListener("toggle", refill);
    const update = (one) => {
      put(count, number(one.count));
      put(latest, date(one.latest));
      if (mark && mark !== `${one.count} ${one.latest}`) refill();
      mark = `${one.count} ${one.latest}`;
    };
    return { element, update };
  };
  const load = async () => {
    const { counts, total, looked_at, problem } = await get("failed/counts", { spider: name });
    keyed(list, counts, (one) => one.reason, group);
    empty.hidden = total > 0;
    note.hidden = !total;
    put(note, `${looked_at < total ? `The latest ${number(looked_at)} of ${number(total)} entries` : counted(total, "entry").replace("entrys", "entries")}, by reason. ${clean(problem)}`);
  };
  return { id: "failed", title: "Failed", element: h("div", {}, note, list, empty), load };
}
