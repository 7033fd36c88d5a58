// All spiders.

import { latest, sparkline } from "./charts.js";
import { h, keyed, put } from "./elements.js";
import { badge } from "./state.js";
import { clean, counted, date, duration, named, number, rate } from "./text.js";

/** Return what a crawl that has ended has done. */
function inOneLine(crawl) {
  // Without a history, only an event tells of it: it has no items.
  const did = [counted(crawl.pages, "page"), crawl.run && counted(crawl.items, "item"), `${number(crawl.failed)} failed`].filter(Boolean);
  return `Last crawl: ${did.join(", ")} in ${duration(crawl.seconds)}, ${crawl.state} ${date(crawl.ended)}`;
}

export function overview() {
  const list = h("ul", { class: "spiders" });
  const empty = h("p", { class: "empty" }, "This Redis has no crawl: no worker has joined one yet, and none has left a history, failed requests or seeds.");
  const note = h("p", { class: "note", hidden: true });
  const element = h("div", {}, h("div", { class: "head" }, h("h1", {}, "All spiders")), note, list, empty);
  const NUMBERS = [
    ["Pages a second", (f) => rate(f.status.per_second)], ["Waiting", (f) => number(f.status.waiting)],
    ["Workers", (f) => number(f.alive)], ["Failed", (f) => number(f.status.failed)],
  ];
  const make = ({ name }) => {
    const state = badge(), line = sparkline(), title = h("h2", { class: "theirs" });
    const values = NUMBERS.map(() => h("dd")), last = h("p", { class: "last", hidden: true });
    const card = h("a", { class: "card spider", href: `#/s/${encodeURIComponent(name)}` },
      h("header", {}, title, state.element), line.element, last,
      h("dl", {}, ...NUMBERS.map(([label], n) => h("div", {}, h("dt", {}, label), values[n]))));
    const update = (frontier) => {
      put(title, named(frontier.name));
      state.show(frontier.status.state);
      line.show(latest(frontier.status, 600).map((point) => point.rate));
      const crawl = frontier.status.last_crawl;
      const isOver = crawl || frontier.status.state === "new";
      line.element.classList.toggle("gone", Boolean(isOver));
      last.hidden = !isOver;
      put(last, clean(crawl ? inOneLine(crawl) : frontier.status.seeds ? `${counted(frontier.status.seeds, "seed")} for the next crawl` : "No crawl is known"));
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
