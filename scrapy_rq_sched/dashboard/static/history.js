// The history of a spider's crawls.

import { get } from "./api.js";
import { badgeOf, ENDED, oneCrawl } from "./crawl.js";
import { h, put, table } from "./elements.js";
import { page } from "./page.js";
import { pager } from "./tabs.js";
import { clean, duration, minute, number, percent } from "./text.js";

export function historyTab(name) {
  let offset = 0, opened = "";
  const PAGE = 50;
  const to = (run) => `#/s/${encodeURIComponent(name)}/history/${run}`;
  const changed = (figure, text) => ({
    mark: (c) => [text(c), c.state, c.differences.find((one) => one.figure === figure)?.percent],
    parts: (c) => {
      const change = c.differences.find((one) => one.figure === figure)?.percent;
      return h("span", {}, text(c), ENDED.includes(c.state) && change ? h("small", { class: "quiet" }, ` ${percent(change)}`) : null);
    },
  });
  const columns = [
    { title: "Crawl", lead: true, mark: (c) => c.run, parts: (c) => (c.run ? h("a", { href: to(c.run) }, `Crawl ${c.run}`) : h("span", {}, "under way")) },
    { title: "Began", text: (c) => minute(c.began) },
    { title: "Took", num: true, ...changed("seconds", (c) => duration(c.seconds)) },
    { title: "State", mark: (c) => c.state, parts: (c) => badgeOf(c.state) },
    { title: "Pages", num: true, ...changed("pages", (c) => number(c.pages)) },
    { title: "Items", num: true, ...changed("items", (c) => number(c.items)) },
    { title: "Errors", num: true, text: (c) => number(c.errors) },
    { title: "Failed", num: true, text: (c) => number(c.failed) },
    { title: "Workers", num: true, text: (c) => `${number(c.joined)}${c.lost ? ` (${number(c.lost)} died)` : ""}` },
  ];
  const shown = table(columns, (crawl) => crawl.run), pages = pager(PAGE, (place) => { offset = place; page.view.refresh(); });
  const note = h("p", { class: "note" }, "The percentages compare a crawl with the finished one before it.");
  const empty = h("p", { class: "empty" }, "The history has no crawl of this spider yet.");
  const all = h("div", {}, note, shown.element, empty, pages.element), one = oneCrawl(name);
  const load = async () => {
    all.hidden = Boolean(opened);
    one.element.hidden = !opened;
    if (opened) { await one.load(opened); return; }
    const { crawls, total } = await get("history", { spider: name, offset, limit: PAGE });
    shown.show(crawls);
    pages.show(offset, total);
    empty.hidden = total > 0;
    note.hidden = shown.element.hidden = !total;
  };
  return { id: "history", title: "History", element: h("div", {}, all, one.element), load, open: (place) => { opened = clean(place); }, place: () => opened };
}
