// Charts.

import { h, put, svg } from "./elements.js";
import { clock, date, duration } from "./text.js";

// Seconds of a part of a live history; and parts of a chart, at most.
const BUCKET = 10, MOST = 400;

/**
 * Return points from *begin* to *end*: the rates of pages, items and errors, and the waiting requests.
 *
 * The *history* has parts of *width* seconds. A part of which too little lies in this time is added to its neighbour.
 */
export function series(history, begin, end, width = BUCKET) {
  // An entry of anybody's may have any times.
  const part = Math.max(width, width * Math.ceil((end - begin) / width / MOST));
  const place = (second) => Math.floor(second / part) * part;
  const sums = new Map();
  // Samples before the time count, too.
  let waiting = history.findLast(([second]) => second < begin)?.[2] ?? 0;
  for (const [second, pages, left, items, errors] of history) {
    const sum = sums.get(place(second)) ?? { pages: 0, items: 0, errors: 0 };
    sums.set(place(second), { pages: sum.pages + pages, items: sum.items + items, errors: sum.errors + errors, waiting: left });
  }
  const found = [];
  for (let second = place(begin); second < end; second += part) {
    const sum = sums.get(second), last = found.at(-1);
    const lasted = Math.min(second + part, end) - Math.max(second, begin), least = 0.4 * part;
    waiting = sum?.waiting ?? waiting;
    const of = last && (lasted < least || last.lasted < least) ? last : { second, lasted: 0, pages: 0, items: 0, errors: 0 };
    if (of !== last) found.push(of);
    // A short part at the beginning, before its neighbour, may have had the most.
    of.waiting = of === last && last.lasted < least ? Math.max(last.waiting, waiting) : waiting;
    of.lasted += lasted;
    for (const name of ["pages", "items", "errors"]) of[name] += sum?.[name] ?? 0;
  }
  return found.map((one) => {
    const per = (name) => one[name] / Math.max(1, one.lasted);
    return { second: one.second, rate: per("pages"), items: per("items"), errors: per("errors"), waiting: one.waiting };
  });
}

/** Return the points of a crawl under way, for *span* seconds at most. They begin at the first sample, and end at what is now. */
export function latest(status, span) {
  const { history, now } = status;
  if (!history.length) return [];
  const [second, , , , , first] = history[0];
  const points = series(history, Math.max(second + (first ?? 0), now - span), now);
  if (points.length) Object.assign(points.at(-1), { rate: status.per_second, items: status.items_per_second, errors: status.errors_per_second });
  return points;
}

/** Return the points of a whole crawl. */
export const whole = (crawl) => (crawl.history.length ? series(crawl.history, crawl.began, crawl.ended, crawl.width) : []);

/** Return a round number at or above *value*. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return ([1, 2, 4, 5, 10].find((n) => n * power >= value) ?? 10) * power || 1;
}

const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1e3 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(value < 1 ? 2 : 1)}`);

function paths(values, most, width = 600, height = 100) {
  const step = width / Math.max(1, values.length - 1);
  const dots = values.map((value, n) => `${(n * step).toFixed(1)},${(height - (height * value) / most).toFixed(1)}`);
  if (dots.length === 1) dots.push(`${width},${dots[0].split(",")[1]}`);
  return { line: `M${dots.join("L")}`, area: `M0,${height}L${dots.join("L")}L${width},${height}Z` };
}

/** Draw *values*; without any, there is no line. */
function draw(area, line, values, most) {
  const drawn = values.length ? paths(values, most) : { area: "", line: "" };
  area.setAttribute("d", drawn.area);
  line.setAttribute("d", drawn.line);
}

/**
 * Return a chart. *pick* returns a point's value, *figure* writes it, and *unit* follows it.
 *
 * A chart of a crawl under way shows its points up to the value of now; that of a crawl that has ended, the whole crawl.
 */
export function chart(title, pick, figure, unit, kind = "") {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "stroke" });
  const rules = [0, 50, 100].map((y) => svg("path", { class: "rule", d: `M0,${y}H600` }));
  const drawing = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rules, area, line);
  const labels = [0, 50, 100].map(() => h("span", { class: "y" }));
  labels.forEach((label, n) => { label.style.top = `${50 * n}%`; });
  const cursor = h("div", { class: "cursor", hidden: true });
  const plot = h("div", { class: "plot", role: "img" }, drawing, ...labels, cursor);
  const output = h("output");
  const from = h("span"), until = h("span");
  let points = [], said = "";
  const leave = () => { cursor.hidden = true; put(output, said); };
  plot.addEventListener("pointermove", (event) => {
    if (!points.length) return;
    const box = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const point = points[Math.round(share * (points.length - 1))];
    cursor.hidden = false;
    cursor.style.left = `${100 * share}%`;
    put(output, `${clock(point.second)} · ${figure(pick(point))} ${unit}`);
  });
  plot.addEventListener("pointerleave", leave);
  const element = h("section", { class: `card pad chart ${kind}` },
    h("header", {}, h("h2", {}, title), output), plot, h("div", { class: "xs", "aria-hidden": "true" }, from, until));
  const drawn = (found, least) => {
    points = found;
    const values = points.map(pick), peak = Math.max(0, least, ...values), most = ceiling(peak);
    draw(area, line, values, most);
    labels.forEach((one, n) => put(one, short(most * (1 - n / 2))));
    return peak;
  };
  const tell = (text, first, last, described) => {
    said = text;
    if (cursor.hidden) put(output, said);
    put(from, first);
    put(until, last);
    plot.setAttribute("aria-label", `${title}: ${described}`);
  };
  /** Show *found* up to the value *now*, with the *highest* one, if it is known. */
  const show = (found, now, highest) => {
    const most = drawn(found, now), peak = figure(highest ?? most), span = points.length ? points.at(-1).second - points[0].second + BUCKET : 0;
    const lasts = duration(span < 60 ? span : Math.round(span / 60) * 60);
    tell(`${figure(now)}, peak ${peak}`, points.length > 1 ? `${lasts} ago` : "", "now", `${figure(now)} ${unit} now, at most ${peak} in the last ${lasts}`);
  };
  /** Show *found* of a whole crawl, with its *average* and its *highest* value, if it has them. */
  const showWhole = (found, began, ended, average, highest) => {
    const most = drawn(found, average ?? 0), peak = figure(highest ?? most), mean = average == null ? "" : `${figure(average)} on average, `;
    tell(`${mean}peak ${peak}`, clock(began), clock(ended), `${mean}at most ${peak} ${unit}, from ${date(began)} to ${date(ended)}`);
  };
  return { element, show, showWhole };
}

export function sparkline() {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "stroke" });
  const element = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  const show = (values) => {
    draw(area, line, values, (Math.max(...values, 0) || 1) * 1.08);
  };
  return { element, show };
}
