// The page of a spider.

import { auditTab } from "./audit.js";
import { chart, latest } from "./charts.js";
import { lastCrawl } from "./crawl.js";
import { act } from "./dialogs.js";
import { h, put } from "./elements.js";
import { eventList } from "./events.js";
import { failedTab } from "./failed.js";
import { historyTab } from "./history.js";
import { limits, tiles } from "./numbers.js";
import { page } from "./page.js";
import { poolList } from "./pools.js";
import { explainTab, nextTab } from "./requests.js";
import { seedTab } from "./seed.js";
import { slotsTab } from "./slots.js";
import { badge } from "./state.js";
import { tabs } from "./tabs.js";
import { clean, duration, named, number, rate } from "./text.js";
import { workersTab } from "./workers.js";

// Seconds that the charts show, at most.
const SPAN = 3600;
// The states in which there is no crawl to steer.
const WITHOUT_CRAWL = ["unknown", "new", "finished"];

function steering() {
  const STEPS = {
    pause: ["Pause", "Pause the crawl?", false], resume: ["Resume", "", false],
    drain: ["Drain", "Drain the crawl?", false], stop: ["Stop", "Stop the workers?", true],
  };
  const buttons = Object.fromEntries(Object.entries(STEPS).map(([step, [label, title, danger]]) => [step, h("button", {
    class: step === "resume" ? "main" : danger ? "danger" : null, "data-action": step,
    onclick: () => act(step, {}, { title, button: label, danger, confirm: step !== "resume" }),
  }, label)]));
  const element = h("div", { class: "buttons", hidden: true }, ...Object.values(buttons));
  const show = ({ state }, alive) => {
    const held = state === "paused" || state === "draining";
    element.hidden = WITHOUT_CRAWL.includes(state);
    buttons.pause.hidden = state === "paused";
    buttons.drain.hidden = state === "draining";
    buttons.resume.hidden = !held;
    buttons.stop.hidden = !alive;
  };
  return { element, show };
}

export function spider(name) {
  const state = badge(), since = h("span", { class: "quiet" }), steer = page.about.actions ? steering() : null;
  state.element.dataset.name = "state";
  const numbers = tiles(), limit = limits(), pools = poolList(name), events = eventList(name);
  const speed = chart("Pages a second", (p) => p.rate, rate, "a second");
  const queue = chart("Waiting", (p) => p.waiting, number, "waiting", "second");
  const charts = h("div", { class: "charts" }, speed.element, queue.element), last = lastCrawl(name);
  const workers = workersTab(name);
  const details = tabs([workers, slotsTab(name), failedTab(name), historyTab(name), nextTab(name), explainTab(name), ...(page.about.actions ? [seedTab()] : []), auditTab(name)]);
  const missing = h("p", { class: "empty", hidden: true });
  const body = h("div", { hidden: true }, numbers.element, h("div", { class: "columns" },
    h("div", { class: "column" }, last.element, last.charts, charts, limit.element, pools.element, details.element), events.element));
  const element = h("div", {}, h("div", { class: "head" }, h("h1", { class: "theirs" }, named(name)), state.element, since, steer?.element), missing, body);
  const show = ({ frontier, redis, known }) => {
    const isNew = frontier && !self.isThere;
    self.isThere = Boolean(frontier);
    missing.hidden = Boolean(frontier) || known !== false;
    body.hidden = !frontier;
    put(missing, clean(redis));
    const ended = frontier?.status.last_crawl;
    document.title = frontier ? `${ended ? clean(frontier.status.state) : `${rate(frontier.status.per_second)}/s`} · ${named(name)} · Frontier` : `${named(name)} · Frontier`;
    if (!frontier) {
      // Until Redis has answered, nothing is known of it, not even that it is not there.
      if (known === false) state.show("unknown");
      put(since, "");
      steer?.show({ state: "unknown" });
      return;
    }
    const { status } = frontier;
    state.show(status.state);
    put(since, status.state_since ? `for ${duration(status.now - status.state_since)}` : ended && status.state === "finished" ? `${duration(status.now - ended.ended)} ago` : "");
    steer?.show(status, frontier.alive);
    numbers.show(frontier);
    limit.show(frontier);
    pools.show(status);
    last.show(status);
    charts.hidden = limit.element.hidden = Boolean(ended);
    const points = latest(status, SPAN);
    speed.show(points, status.per_second, status.peak);
    queue.show(points, status.waiting);
    workers.show(status);
    details.count("workers", number(frontier.alive));
    details.count("slots", status.slots ? number(status.slots) : "");
    details.count("failed", status.failed ? number(status.failed) : "");
    events.show(frontier);
    if (isNew) details.refresh();
  };
  const self = { element, show, name, isThere: false, choose: details.choose, reveal: details.reveal, refresh: () => { pools.refresh(); details.refresh(); } };
  return self;
}
