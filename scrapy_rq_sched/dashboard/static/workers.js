// The workers of a spider.

import { get } from "./api.js";
import { act } from "./dialogs.js";
import { h, keyed, link, put, table, theirs } from "./elements.js";
import { page } from "./page.js";
import { pager } from "./tabs.js";
import { clean, counted, date, duration, named, number, quoted, statusList } from "./text.js";

const stateOf = (w) => (w.place ? `${w.place} in line` : !w.alive ? "dead" : w.told_to_stop ? "closing" : "alive");
const stateBadge = (w) => h("span", { class: `badge ${w.place ? "calm" : !w.alive ? "bad" : w.told_to_stop ? "warn" : "good"}` }, stateOf(w));

// Milliseconds after which a log is searched again.
const AGAIN = 5000;

/** Return how a worker of a crawl has ended, as a badge. */
export const endBadge = (w) => h("span", { class: `badge ${w.how === "lost" ? "bad" : w.how ? "calm" : "good"}` }, w.how === "lost" ? "died" : w.how || "alive");

/** Return one worker: its state, what it holds, its log. */
function oneWorker(name) {
  let now = 0, shown = "", sought = "", soughtAt = 0;
  const title = h("h2", { class: "theirs" }), badge = h("span"), facts = h("dl", { class: "facts" });
  const stop = page.about.actions && h("button", { class: "small danger", hidden: true,
    onclick: () => act("workers/stop", { worker: shown }, { title: `Stop ${named(shown)}?`, button: "Stop", danger: true }) }, "Stop this worker");
  const held = table([
    { title: "Request", lead: true, mark: (l) => [l.url, l.problem], parts: (l) => (l.url ? link(l.url) : theirs(l.problem)) },
    { title: "Kind", text: (l) => l.kind },
    { title: "Held for", num: true, text: (l) => (l.since ? duration(now - l.since) : "–") },
    { title: "Deaths", num: true, hint: "How many workers died while they crawled it", text: (l) => (l.deaths ? number(l.deaths) : "–") },
    { title: "Item", text: (l) => l.item ?? "–" },
  ], (lease) => lease.lease);
  const none = h("p", { class: "empty" }, "It holds no request."), more = h("p", { class: "note" }), log = h("pre", { class: "theirs log", tabindex: 0 }), note = h("p", { class: "note" });
  const text = h("input", { name: "text", autocomplete: "off", spellcheck: "false", placeholder: "Ignoring response" });
  const search = h("form", { class: "row", hidden: true, onsubmit: (event) => {
    event.preventDefault();
    [sought, soughtAt] = [text.value.trim(), 0];
    page.view.refresh();
  } }, h("label", {}, "Lines of the log with this text", text), h("button", { type: "submit", class: "small" }, "Search"));
  const holds = h("h3", {}, "In hand");
  const missing = h("p", { class: "empty", hidden: true });
  const body = h("div", {}, h("div", { class: "head" }, title, badge, stop), facts, holds, held.element, none, more, h("h3", {}, "Log"), note, search, log);
  const element = h("div", { hidden: true }, h("p", {}, h("a", { href: `#/s/${encodeURIComponent(name)}/workers` }, "All workers")), missing, body);
  const ago = (time) => (time ? `${duration(now - time)} ago` : "–");
  const write = (lines) => {
    log.hidden = !lines.length;
    put(log, clean(lines.join("\n")));
  };
  const seek = async (worker, wanted) => {
    const { log: found } = await get("worker", { spider: name, worker, log: wanted });
    if (shown !== worker || sought !== wanted) return;
    soughtAt = Date.now();
    write(found.lines);
    const latest = found.found > found.lines.length ? `The latest ${number(found.lines.length)} of ` : "";
    put(note, clean(found.problem || (found.found ? `${latest}${counted(found.found, "line")} with “${wanted}”` : `No line has “${wanted}”`)));
    note.hidden = false;
  };
  const ofNow = (w) => [
    ["Host", w.host ? `${w.host}, process ${w.pid}` : "–"], ["Versions", w.version ? `scrapy-rq-sched ${w.version}, Scrapy ${w.scrapy}` : "–"],
    ["Joined", ago(w.joined)], ["Last heard", ago(w.heard)], ["Pages", number(w.pages)],
    ["Limited by", w.limit === "none" ? "–" : page.about.limits[w.limit] ?? w.limit],
    ["Offers", w.offers.join(", ") || "–"], ["Items", Object.entries(w.items).map(([pool, item]) => `${item} of ${pool}`).join(", ") || "–"],
  ];
  const ofPast = (w, run) => [
    ["Host", w.host ? `${w.host}, process ${w.pid}` : "–"], ["Crawl", run ? `${run}` : "–"], ["Joined", date(w.joined)],
    [w.how === "lost" ? "Last heard" : "Left", w.ended ? date(w.ended) : "–"],
    ["Responses", [number(w.counts.responses ?? 0), statusList(w.counts)].filter(Boolean).join(": ")],
  ];
  const load = async (worker) => {
    if (shown !== worker) { sought = text.value = ""; }
    shown = worker;
    let found = null;
    try { found = await get("worker", { spider: name, worker }); } catch (error) {
      if (error.status !== 404) throw error;
      put(missing, clean(error.message));
    }
    if (shown !== worker) return;
    missing.hidden = Boolean(found);
    body.hidden = !found;
    if (!found) return;
    // A worker that has ended is in the history of the last crawls.
    const { past } = found, w = past?.worker ?? found.worker;
    put(title, named(w.name));
    badge.replaceChildren(past ? endBadge(w) : stateBadge(w));
    if (stop) stop.hidden = Boolean(past) || !w.alive || w.told_to_stop || Boolean(w.place);
    const rows = past ? ofPast(w, past.run) : ofNow(w);
    keyed(facts, rows.flatMap(([label, text]) => [[label, "dt", label], [label, "dd", text]]), ([label, tag]) => label + tag, ([, tag]) => {
      const cell = h(tag, { class: "theirs" });
      return { element: cell, update: ([, , text]) => put(cell, clean(text)) };
    });
    const leases = found.held ?? [];
    held.show(leases);
    held.element.hidden = !leases.length;
    holds.hidden = Boolean(past);
    none.hidden = Boolean(past) || leases.length > 0;
    more.hidden = !found.has_more;
    put(more, `The first ${number(leases.length)} requests.`);
    search.hidden = Boolean(found.log.problem);
    if (sought) {
      if (Date.now() - soughtAt > AGAIN) await seek(worker, sought);
      return;
    }
    note.hidden = !found.log.problem && !w.log;
    put(note, clean([w.log, found.log.problem].filter(Boolean).join(". ")));
    // The latest line is in sight, unless somebody has scrolled up.
    const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    write(found.log.lines);
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  };
  return { element, load, show: (status) => { now = status.now; } };
}

export function workersTab(name) {
  let now = 0, offset = 0, opened = "";
  const PAGE = 50;
  const to = (worker) => `#/s/${encodeURIComponent(name)}/workers/${encodeURIComponent(worker)}`;
  const columns = [
    { title: "Worker", lead: true, mark: (w) => w.name, parts: (w) => h("a", { class: "theirs", href: to(w.name) }, named(w.name)) },
    { title: "State", mark: (w) => [w.alive, w.told_to_stop, w.place], parts: stateBadge },
    { title: "Host", text: (w) => (w.host ? `${w.host} (${w.pid})` : "–") },
    { title: "Pages", num: true, text: (w) => number(w.pages) },
    { title: "In hand", num: true, hint: "The requests that the worker holds, and has not finished yet", text: (w) => number(w.in_hand) },
    { title: "Limited by", text: (w) => (w.limit === "none" ? "–" : w.limit) },
    { title: "Joined", text: (w) => (w.joined ? `${duration(now - w.joined)} ago` : "–") },
    { title: "Last heard", text: (w) => (w.heard ? `${duration(now - w.heard)} ago` : "–") },
  ];
  const shown = table(columns, (worker) => worker.name), pages = pager(PAGE, (place) => { offset = place; page.view.refresh(); });
  const empty = h("p", { class: "empty" }, `No worker is running. Start one: scrapy crawl ${quoted(clean(name))}`);
  const all = h("div", {}, shown.element, empty, pages.element), one = oneWorker(name);
  const load = async () => {
    all.hidden = Boolean(opened);
    one.element.hidden = !opened;
    if (opened) { await one.load(opened); return; }
    const { workers, total } = await get("workers", { spider: name, offset, limit: PAGE });
    shown.show(workers);
    pages.show(offset, total);
    empty.hidden = total > 0;
    shown.element.hidden = !total;
  };
  const open = (place) => { try { opened = decodeURIComponent(place); } catch { opened = ""; } };
  return {
    id: "workers", title: "Workers", element: h("div", {}, all, one.element), load, open, place: () => encodeURIComponent(opened),
    show: (status) => { now = status.now; one.show(status); },
  };
}
