// The workers of a spider.

import { get } from "./api.js";
import { h, table } from "./elements.js";
import { page } from "./page.js";
import { pager } from "./tabs.js";
import { clean, duration, named, number, quoted } from "./text.js";

export function workersTab(name) {
  let now = 0, offset = 0;
  const PAGE = 50;
  const columns = [
    { title: "Worker", lead: true, text: (w) => named(w.name) },
    { title: "State", mark: (w) => [w.alive, w.told_to_stop, w.place], parts: (w) => h("span", { class: `badge ${w.place ? "calm" : !w.alive ? "bad" : w.told_to_stop ? "warn" : "good"}` }, w.place ? `${w.place} in line` : !w.alive ? "dead" : w.told_to_stop ? "closing" : "alive") },
    { title: "Host", text: (w) => (w.host ? `${w.host} (${w.pid})` : "–") },
    { title: "Pages", num: true, text: (w) => number(w.pages) },
    { title: "In hand", num: true, hint: "The requests that the worker holds, and has not finished yet", text: (w) => number(w.in_hand) },
    { title: "Limited by", text: (w) => (w.limit === "none" ? "–" : w.limit) },
    { title: "Joined", text: (w) => (w.joined ? `${duration(now - w.joined)} ago` : "–") },
    { title: "Last heard", text: (w) => (w.heard ? `${duration(now - w.heard)} ago` : "–") },
  ];
  const shown = table(columns, (worker) => worker.name), pages = pager(PAGE, (to) => { offset = to; page.view.refresh(); });
  const empty = h("p", { class: "empty" }, `No worker is running. Start one: scrapy crawl ${quoted(clean(name))}`);
  const load = async () => {
    const { workers, total } = await get("workers", { spider: name, offset, limit: PAGE });
    shown.show(workers);
    pages.show(offset, total);
    empty.hidden = total > 0;
    shown.element.hidden = !total;
  };
  return { id: "workers", title: "Workers", element: h("div", {}, shown.element, empty, pages.element), load, show: (status) => { now = status.now; } };
}
