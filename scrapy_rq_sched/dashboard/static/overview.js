// All spiders.

import { series, sparkline } from "./charts.js";
import { h, keyed, put } from "./elements.js";
import { badge } from "./state.js";
import { named, number, rate } from "./text.js";

export function overview() {
  const list = h("ul", { class: "spiders" });
  const empty = h("p", { class: "empty" }, "This Redis has no crawl: no worker has joined one yet, or all crawls are finished.");
  const note = h("p", { class: "note", hidden: true });
  const element = h("div", {}, h("div", { class: "head" }, h("h1", {}, "All spiders")), note, list, empty);
  const NUMBERS = [
    ["Pages a second", (f) => rate(f.status.per_second)], ["Waiting", (f) => number(f.status.waiting)],
    ["Workers", (f) => number(f.alive)], ["Failed", (f) => number(f.status.failed)],
  ];
  const make = ({ name }) => {
    const state = badge(), line = sparkline(), title = h("h2", { class: "theirs" });
    const values = NUMBERS.map(() => h("dd"));
    const card = h("a", { class: "card spider", href: `#/s/${encodeURIComponent(name)}` },
      h("header", {}, title, state.element), line.element,
      h("dl", {}, ...NUMBERS.map(([label], n) => h("div", {}, h("dt", {}, label), values[n]))));
    const update = (frontier) => {
      put(title, named(frontier.name));
      state.show(frontier.status.state);
      line.show(series(frontier.status.history, frontier.status.now, 600).map((point) => point.rate));
      NUMBERS.forEach(([, value], n) => put(values[n], value(frontier)));
    };
    return { element: h("li", {}, card), update };
  };
  const show = ({ frontiers, total, redis }) => {
    keyed(list, frontiers, (frontier) => frontier.name, make);
    empty.hidden = frontiers.length > 0 || Boolean(redis);
    note.hidden = total <= frontiers.length;
    put(note, `The first ${number(frontiers.length)} of ${number(total)}`);
    document.title = "Frontier";
  };
  return { element, show, path: "stream", name: null };
}
