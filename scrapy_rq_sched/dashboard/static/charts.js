// Charts.

import { h, put, svg } from "./elements.js";
import { clock, duration } from "./text.js";

const BUCKET = 10;

/** Return points of the rate and of the waiting requests, every ten seconds from the first sample on, for *span* at most. */
export function series(history, now, span) {
  const byTime = new Map(history.map(([second, pages, waiting]) => [second, { pages, waiting }]));
  const last = Math.floor(now / BUCKET) * BUCKET, first = history[0]?.[0] ?? Infinity;
  const points = [];
  let waiting = 0;
  for (let second = Math.max(first, last - span + BUCKET); second <= last; second += BUCKET) {
    const moment = byTime.get(second);
    // Samples before the span count, too.
    waiting = moment?.waiting ?? (points.length ? waiting : history.findLast(([time]) => time < second)?.[2] ?? 0);
    // The present ten seconds are too short for a rate at their beginning.
    const lasted = second === last ? now - last : BUCKET;
    if (lasted < 4) continue;
    points.push({ second, rate: (moment?.pages ?? 0) / lasted, waiting });
  }
  return points;
}

/** Return a round number at or above *value*. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return ([1, 2, 4, 5, 10].find((n) => n * power >= value) ?? 10) * power || 1;
}

const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1e3 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(1)}`);

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

export function chart(title, pick, unit, kind) {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "stroke" });
  const rules = [0, 50, 100].map((y) => svg("path", { class: "rule", d: `M0,${y}H600` }));
  const drawing = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rules, area, line);
  const labels = [0, 50, 100].map(() => h("span", { class: "y" }));
  labels.forEach((label, n) => { label.style.top = `${50 * n}%`; });
  const cursor = h("div", { class: "cursor", hidden: true });
  const plot = h("div", { class: "plot", role: "img" }, drawing, ...labels, cursor);
  const output = h("output");
  const from = h("span"), until = h("span", {}, "now");
  let points = [], now = "";
  const leave = () => { cursor.hidden = true; put(output, now); };
  plot.addEventListener("pointermove", (event) => {
    if (!points.length) return;
    const box = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const point = points[Math.round(share * (points.length - 1))];
    cursor.hidden = false;
    cursor.style.left = `${100 * share}%`;
    put(output, `${clock(point.second)} · ${unit(pick(point))}`);
  });
  plot.addEventListener("pointerleave", leave);
  const element = h("section", { class: `card pad chart ${kind}` },
    h("header", {}, h("h2", {}, title), output), plot, h("div", { class: "xs", "aria-hidden": "true" }, from, until));
  const show = (found, label) => {
    points = found;
    const values = points.map(pick), most = ceiling(Math.max(0, ...values));
    draw(area, line, values, most);
    labels.forEach((one, n) => put(one, short(most * (1 - n / 2))));
    now = label;
    if (cursor.hidden) put(output, now);
    const span = points.length ? points.at(-1).second - points[0].second + BUCKET : 0;
    put(from, points.length > 1 ? `${duration(span < 60 ? span : Math.round(span / 60) * 60)} ago` : "");
    plot.setAttribute("aria-label", `${title}: ${label} now, at most ${unit(Math.max(0, ...values))} in the last ${duration(span)}`);
  };
  return { element, show };
}

export function sparkline() {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "stroke" });
  const element = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  const show = (values) => {
    draw(area, line, values, (Math.max(...values, 0) || 1) * 1.08);
  };
  return { element, show };
}
