// The pools of a spider.

import { get } from "./api.js";
import { act } from "./dialogs.js";
import { h, keyed, put, table, theirs } from "./elements.js";
import { page } from "./page.js";
import { clean, counted, duration, number } from "./text.js";

/** Return the pools and their items. It is hidden if there are none. */
export function poolList(name) {
  const TONE = { free: "good", "in use": "calm", rests: "warn", waits: "warn", retired: "bad" };
  const reason = { name: "reason", label: "Reason", maxlength: 200 };
  const add = (pool) => act("pools/add", ({ item }) => ({ pool, items: [item] }), {
    title: `Add to ${pool}?`, button: "Add",
    text: "An item is a text, or a JSON object with a name. The name of an item that is there uses it again. The page never shows more of it than its name.",
    fields: [{ name: "item", label: "Item", type: "password", autocomplete: "off", required: true }],
  });
  const rest = ({ pool, name: item }) => act("pools/rest", ({ seconds, ...given }) => ({ pool, item, seconds: Number(seconds), ...given }), {
    title: `Let ${item} rest?`, button: "Rest", text: "No request begins with this item until the time is over.",
    fields: [{ name: "seconds", label: "Seconds (0: end its rest)", type: "number", min: 0, max: 31622400, value: 600, required: true }, reason],
  });
  const retire = ({ pool, name: item }) => act("pools/retire", (given) => ({ pool, item, ...given }), {
    title: `Retire ${item}?`, button: "Retire", danger: true, text: "No request begins with this item until it is used again.", fields: [reason],
  });
  const again = ({ pool, name: item }) => act("pools/add", { pool, items: [item] }, { title: `Use ${item} again?`, button: "Use again" });
  const remove = ({ pool, name: item }) => act("pools/remove", { pool, items: [item] }, { title: `Remove ${item}?`, button: "Remove", danger: true });
  const button = (label, press, danger = false) => h("button", { class: danger ? "small danger" : "small", onclick: press }, label);
  const buttons = (one) => h("div", { class: "buttons" },
    one.retired ? button("Use again", () => again(one)) : button("Rest", () => rest(one)),
    !one.retired && button("Retire", () => retire(one)),
    button("Remove", () => remove(one), true));
  const soon = (one) => (one.free_in === 0 ? "now" : one.free_in == null ? "–" : duration(Math.max(1, one.free_in)));
  const shown = table([
    { title: "Pool", text: (one) => one.pool },
    { title: "Item", lead: true, mark: (one) => one.name, parts: (one) => theirs(one.name) },
    { title: "State", mark: (one) => one.state, parts: (one) => h("span", { class: `badge ${TONE[one.state] ?? ""}` }, clean(one.state)) },
    { title: "Free in", num: true, text: soon },
    { title: "Why", mark: (one) => [one.retired, one.why], parts: (one) => theirs(one.retired || one.why || "–") },
    { title: "Worker", mark: (one) => one.workers, parts: (one) => theirs(one.workers.join(", ") || "–") },
    { title: "Used", num: true, text: (one) => number(one.used) },
    { title: "Bad in a row", num: true, text: (one) => number(one.bad) },
    ...(page.about.actions ? [{ title: "", mark: (one) => [one.pool, one.name, Boolean(one.retired)], parts: buttons }] : []),
  ], (one) => `${one.pool} ${one.name}`);
  const counts = h("ul", { class: "plain" }), note = h("p", { class: "note", hidden: true });
  const element = h("section", { class: "card pad pools", "data-name": "pools", hidden: true }, h("h2", {}, "Pools"), counts, shown.element, note);
  const line = ({ name: pool }) => {
    const text = h("span");
    const update = (one) => put(text, clean(`${one.name}: ${counted(one.items, "item")}: ${number(one.free)} free, ${number(one.in_use)} in use, ${number(one.rests)} at rest, ${number(one.waits)} in their delay, ${number(one.retired)} retired `));
    return { element: h("li", {}, text, page.about.actions && button("Add", () => add(pool))), update };
  };
  let read = 0, reading = false;
  const show = async ({ pools = [] }) => {
    element.hidden = !pools.length;
    keyed(counts, pools, (one) => one.name, line);
    if (!pools.length || reading || Date.now() - read < 2000) return;
    reading = true;
    try {
      const { items, has_more } = await get("pools", { spider: name });
      shown.show(items);
      note.hidden = !has_more;
      put(note, `The first ${number(items.length)} items.`);
    } catch { /* the next picture asks again */ }
    read = Date.now();
    reading = false;
  };
  return { element, show, refresh: () => { read = 0; } };
}
