// A crawl of the history: its figures beside those of the crawl before, and its charts; and the last crawl of a spider.

import { get } from "./api.js";
import { chart, whole } from "./charts.js";
import { h, keyed, put, table, theirs } from "./elements.js";
import { badge } from "./state.js";
import { clean, counted, date, duration, fineRate, named, number, rate, size, statusList } from "./text.js";
import { endBadge } from "./workers.js";

/** The states of a crawl that has ended. */
export const ENDED = ["finished", "stopped", "cleared"];
// The counts that are named only if they are not 0.
const FURTHER = {
  retries: "retries", exceptions: "without a response", duplicates: "duplicates", robots: "forbidden by robots.txt",
  offsite: "offsite", http_errors: "dropped because of their status (with those that failed)", callback_errors: "with an exception in the callback",
  dropped_items: "items dropped by pipelines",
};
const SINGULAR = { retries: "retry", duplicates: "duplicate", dropped_items: "item dropped by pipelines" };

export const badgeOf = (state) => { const made = badge(); made.show(state); return made.element; };

const perSecond = (crawl, figure) => crawl[figure] / Math.max(1, crawl.seconds);

/** Return charts of a whole crawl: those of *kinds*. */
export function wholeCharts(kinds) {
  const KINDS = {
    pages: [chart("Pages a second", (p) => p.rate, rate, "a second"), (c) => c.per_second],
    items: [chart("Items a second", (p) => p.items, fineRate, "a second"), (c) => perSecond(c, "items")],
    errors: [chart("Errors a second", (p) => p.errors, fineRate, "a second", "alarming"), (c) => perSecond(c, "errors")],
    waiting: [chart("Waiting", (p) => p.waiting, number, "waiting", "second"), () => null],
  };
  const element = h("div", { class: "charts" }, ...kinds.map((kind) => KINDS[kind][0].element));
  const show = (crawl) => {
    const points = whole(crawl), highest = { pages: crawl.peak, waiting: Math.max(0, ...crawl.history.map(([, , waiting]) => waiting)) };
    element.hidden = !points.length;
    for (const kind of kinds) KINDS[kind][0].showWhole(points, crawl.began, crawl.ended, KINDS[kind][1](crawl), highest[kind]);
  };
  return { element, show };
}

function further(crawl) {
  const found = Object.entries(FURTHER).filter(([name]) => crawl.counts[name]).map(([name, text]) => `${number(crawl.counts[name])} ${crawl.counts[name] === 1 ? SINGULAR[name] ?? text : text}`);
  if (crawl.returned) found.push(`${number(crawl.returned)} of dead workers crawled again`);
  return found.join(", ");
}

/** Return a list of terms, which shows those that have a text. */
function facts() {
  const element = h("dl", { class: "facts" });
  const show = (rows) => {
    const there = rows.filter(([, text]) => text);
    keyed(element, there.flatMap(([label, text]) => [[label, "dt", label], [label, "dd", text]]), ([label, tag]) => label + tag, ([, tag]) => {
      const cell = h(tag, { class: "theirs" });
      return { element: cell, update: ([, , text]) => put(cell, clean(text)) };
    });
    element.hidden = !there.length;
  };
  return { element, show };
}

/** Return a table below a title. Without rows it is hidden. */
function titled(title, columns, key) {
  const shown = table(columns, key), element = h("section", {}, h("h3", {}, title), shown.element);
  return { element, show: (rows) => { element.hidden = !rows.length; shown.show(rows); } };
}

/** Return the kinds of requests that were moved to the failed list. */
function failedKinds(name) {
  const shown = titled("Failed", [
    { title: "Reason", lead: true, mark: (one) => one.reason, parts: (one) => theirs(one.reason || "unknown") },
    { title: "Requests", num: true, text: (one) => number(one.count) },
  ], (one) => one.reason);
  shown.element.append(h("p", {}, h("a", { href: `#/s/${encodeURIComponent(name)}/failed` }, "To the failed list")));
  return { element: shown.element, show: (crawl) => shown.show(Object.entries(crawl.set_aside).map(([reason, count]) => ({ reason, count })).sort((one, other) => other.count - one.count)) };
}

const slotTable = (title) => titled(title, [
  { title: "Slot", lead: true, mark: (one) => one.slot, parts: (one) => theirs(named(one.slot)) },
  { title: "Responses", num: true, text: (one) => number(one.responses) },
  { title: "On average", num: true, text: (one) => `${one.seconds.toFixed(2)} s` },
], (one) => one.slot);

/** Return one crawl, beside the finished one before it. */
export function oneCrawl(name) {
  let wanted = "", ended = 0;
  const title = h("h2"), state = badge(), cause = h("p", { class: "cause theirs" }), about = facts();
  const beforeIt = h("span");
  const figures = table([
    { title: "", lead: true, text: (one) => one.label },
    { title: "This crawl", num: true, text: (one) => one.now },
    { title: "Before", num: true, text: (one) => one.before },
    { title: "Change", text: (one) => one.text || "–" },
  ], (one) => one.label);
  figures.element.querySelectorAll("th")[2].replaceChildren(beforeIt);
  const charts = wholeCharts(["pages", "items", "errors", "waiting"]), failed = failedKinds(name);
  const largest = slotTable("Largest slots"), slowest = slotTable("Slowest slots");
  const workers = titled("Workers", [
    { title: "Worker", lead: true, mark: (w) => w.name, parts: (w) => h("a", { class: "theirs", href: `#/s/${encodeURIComponent(name)}/workers/${encodeURIComponent(w.name)}` }, named(w.name)) },
    { title: "Ended", mark: (w) => [w.how, w.ended], parts: endBadge },
    { title: "Host", text: (w) => (w.host ? `${w.host} (${w.pid})` : "–") },
    { title: "For", num: true, text: (w) => duration((w.ended || ended) - w.joined) },
    { title: "Responses", num: true, text: (w) => number(w.counts.responses) },
    { title: "Log", text: (w) => w.log || "–" },
  ], (w) => w.name);
  const more = h("p", { class: "note" }), dropped = h("p", { class: "note" }, "The logs of the workers name the pages that were dropped because of their status, and those with an exception in the callback. Open a worker, and search its log for “Ignoring response”, or for “Spider error processing”."), missing = h("p", { class: "empty", hidden: true });
  const body = h("div", {}, h("div", { class: "head" }, title, state.element), cause, figures.element, charts.element, about.element,
    dropped, failed.element, largest.element, slowest.element, workers.element, more);
  const element = h("div", { hidden: true, "data-name": "crawl" }, h("p", {}, h("a", { href: `#/s/${encodeURIComponent(name)}/history` }, "All crawls")), missing, body);
  const rows = (found) => {
    const { crawl, before } = found;
    const text = (figure) => found.differences.find((one) => one.figure === figure)?.text;
    const row = (label, figure, write, change = text(figure)) => ({ label, now: write(crawl), before: before ? write(before) : "–", text: change });
    return [
      row("Pages", "pages", (c) => number(c.pages)), row("Items", "items", (c) => number(c.items)),
      row("Errors", "errors", (c) => number(c.errors)), row("Failed", "failed", (c) => number(c.failed)),
      row("Duration", "seconds", (c) => duration(c.seconds)), row("Pages a second", "", (c) => rate(c.per_second), ""),
    ];
  };
  const show = (found) => {
    const { crawl, before } = found;
    ({ ended } = crawl);
    put(title, `Crawl ${crawl.run}`);
    state.show(crawl.state);
    cause.hidden = !found.cause;
    put(cause, clean(found.cause));
    put(beforeIt, before ? `Crawl ${before.run}` : "Before");
    figures.show(rows(found));
    charts.show(crawl);
    about.show([
      ["Reason", crawl.reason], ["Began", date(crawl.began)], ["Ended", ENDED.includes(crawl.state) ? date(crawl.ended) : ""],
      ["Statuses", statusList(crawl.statuses)], ["Received", crawl.counts.bytes ? size(crawl.counts.bytes) : ""], ["Also", further(crawl)],
      ["Settings", Object.entries(crawl.settings).map(([setting, value]) => `${setting}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ")],
      ["Version", crawl.version ? `scrapy-rq-sched ${crawl.version}, Scrapy ${crawl.scrapy}` : ""],
    ]);
    dropped.hidden = !(crawl.counts.http_errors || crawl.counts.callback_errors);
    failed.show(crawl);
    largest.show(crawl.slots > 1 ? crawl.largest : []);
    slowest.show(crawl.slots > 1 ? crawl.slowest : []);
    workers.show(crawl.workers);
    more.hidden = crawl.joined <= crawl.workers.length;
    put(more, `The first ${number(crawl.workers.length)} of ${counted(crawl.joined, "worker")}.`);
  };
  const load = async (run) => {
    wanted = run;
    let found = null;
    try { found = await get("history", { spider: name, run }); } catch (error) {
      if (error.status !== 404 && error.status !== 400) throw error;
      put(missing, clean(error.message));
    }
    if (wanted !== run) return;
    missing.hidden = Boolean(found);
    body.hidden = !found;
    if (found) show(found);
  };
  return { element, load };
}

/** Return how the last crawl has ended: its end, what differs from the crawl before, and what failed. */
export function lastCrawl(name) {
  let known = "", asking = false, found = null;
  const text = h("p", { class: "theirs" }), cause = h("p", { class: "cause theirs", hidden: true }), changes = h("ul", { class: "plain", hidden: true }), about = facts();
  const link = h("a", { href: `#/s/${encodeURIComponent(name)}/history` }, "All about this crawl"), place = h("p", {}, link);
  const charts = wholeCharts(["pages", "items", "errors", "waiting"]);
  const element = h("section", { class: "card pad last-crawl", "data-name": "last-crawl", hidden: true }, h("h2", {}, "Last crawl"), text, cause, changes, about.element, place);
  const ask = async (crawl) => {
    const mark = `${crawl.run} ${crawl.ended}`;
    if (!crawl.run || known === mark || asking) return;
    asking = true;
    // It says more than the picture: the differences from the crawl before, and the cause.
    try { found = await get("history", { spider: name, run: crawl.run }); known = mark; } catch { /* the next picture asks again */ }
    asking = false;
  };
  const LABELS = { pages: "Pages", items: "Items", seconds: "Duration", errors: "Errors", failed: "Failed" };
  const write = (one) => {
    const figure = (value) => (one.figure === "seconds" ? duration(value) : number(value));
    return `${LABELS[one.figure]} ${figure(one.now)}${one.text ? `, ${one.text} (${figure(one.before)})` : `, the last time ${figure(one.before)}`}`;
  };
  const show = (status) => {
    const crawl = status.last_crawl;
    element.hidden = charts.element.hidden = !crawl;
    if (!crawl) return;
    put(text, clean(`It was ${crawl.state} on ${date(crawl.ended)}, after ${duration(crawl.seconds)}${crawl.reason ? `: ${crawl.reason}` : ""}.`));
    const kinds = Object.entries(crawl.set_aside).filter(([kind]) => kind).sort(([, one], [, other]) => other - one).slice(0, 5);
    about.show([
      ["Statuses", statusList(crawl.statuses)],
      ["Failed", crawl.failed ? [number(crawl.failed), kinds.map(([kind, count]) => `${kind}: ${number(count)}`).join(", ")].filter(Boolean).join(": ") : ""],
      ["Also", further(crawl)],
      ["Workers", crawl.joined ? `${number(crawl.joined)}${crawl.lost ? `, of which ${number(crawl.lost)} died` : ""}` : ""],
    ]);
    charts.show(crawl);
    place.hidden = !crawl.run;
    link.href = `#/s/${encodeURIComponent(name)}/history/${crawl.run}`;
    ask(crawl).then(() => {
      const its = found?.crawl.run === crawl.run ? found : null;
      cause.hidden = !its?.cause;
      put(cause, clean(its?.cause));
      const differences = (its?.differences ?? []).filter((one) => one.text || !["errors", "failed"].includes(one.figure));
      changes.hidden = !differences.length;
      keyed(changes, differences, (one) => one.figure, () => {
        const line = h("li");
        return { element: line, update: (one) => put(line, write(one)) };
      });
    });
  };
  return { element, charts: charts.element, show };
}
