// The numbers of a spider, and its current limit.

import { h, hinted, keyed, put } from "./elements.js";
import { page } from "./page.js";
import { growth, timeLeft } from "./state.js";
import { clean, clock, counted, duration, fineRate, left, number, rate, size } from "./text.js";

// What the words of the cards mean.
const HINTS = {
  responses: "The responses of all workers, by HTTP status, also those that were tried again.",
  leased: "Requests in hand: workers hold them, and have not finished them yet. If a worker dies, they go back to the queue. Delayed ones wait until a time, such as a retry after a worker's death.",
  alive: "Wanted: as many workers as would finish all that waits in ten minutes; no more than now if politeness, Redis, needs or pools limit the crawl.",
  left: "The time until nothing waits, if the crawl goes on as in the last minutes. Next turn: all slots wait for their delay or their block, and the first of them may begin a request then.",
};

/** Return the two most frequent statuses, and how many others there are. */
function statusesOf(found) {
  const all = Object.entries(found).sort(([, one], [, other]) => other - one);
  return all.slice(0, 2).map(([status, count]) => `${status}:\u00a0${number(count)}`).join(", ") + (all.length > 2 ? `, ${all.length - 2} more` : "");
}

// The numbers of what is under way.
const OF_NOW = ["waiting", "leased", "alive", "seeds", "seen", "left"];

const sum = (found) => Object.values(found).reduce((total, count) => total + count, 0);
const everybody = (f, s) => [f.workers > f.alive && `${f.workers - f.alive} dead`, f.in_line && `${f.in_line} in line`, `${number(s.workers_wanted)} wanted`].filter(Boolean).join(", ");

/** Return the numbers of the crawl under way; after its end, those of the whole crawl. */
export function tiles() {
  // Of a crawl that has ended, `c` is its entry in the history, and `a` its averages.
  const TILES = [
    ["per_second", "Pages a second", ({ s, c }) => rate((c ?? s).per_second), ({ s, c }) => `${number((c ?? s).pages)} in all`],
    ["items", "Items a second", ({ s, a }) => rate(a ? a.items : s.items_per_second), ({ s, c }) => `${number((c ?? s).items)} in all`],
    ["errors", "Errors", ({ s, c }) => number((c ?? s).errors), ({ s, a }) => `${fineRate(a ? a.errors : s.errors_per_second)} a second`],
    ["responses", "Responses", ({ s, c }) => number(sum((c ?? s).statuses)), ({ s, c }) => statusesOf((c ?? s).statuses)],
    ["failed", "Failed", ({ s }) => number(s.failed), ({ s, c }) => (c ? `${number(c.failed)} in this crawl` : s.failed ? "in the failed list" : "")],
    ["took", "Duration", ({ s, c }) => (c ? duration(c.seconds) : s.began ? duration(s.now - s.began) : "–"), ({ s, c }) => (c ? `until ${clock(c.ended)}` : s.began ? `since ${clock(s.began)}` : "")],
    ["waiting", "Waiting", ({ s }) => number(s.waiting), ({ s }) => growth(s) || (s.waiting ? size(s.waiting_bytes) : "")],
    ["leased", "In hand", ({ s }) => number(s.leased), ({ s }) => (s.delayed ? `${number(s.delayed)} delayed` : "held by workers")],
    ["alive", "Workers", ({ f }) => number(f.alive), ({ f, s }) => everybody(f, s)],
    ["seeds", "Seeds", ({ s }) => number(s.seeds), () => "not read yet"],
    ["seen", "Seen", ({ s }) => number(s.seen), ({ s }) => (s.seen ? size(s.seen_bytes) : "")],
    ["left", "Time left", ({ s }) => timeLeft(s)[0], ({ s }) => (s.next_turn_in > 0.05 ? `next turn in ${left(s.next_turn_in)}` : timeLeft(s)[1])],
  ];
  const made = TILES.map(([name, title]) => {
    const value = h("dd", { "data-name": name }), small = h("small");
    return { value, small, element: h("div", { class: "card tile" }, h("dt", {}, hinted(title, HINTS[name])), value, small) };
  });
  const element = h("dl", { class: "tiles" }, ...made.map((one) => one.element));
  const show = (f) => {
    const s = f.status, c = s.last_crawl;
    element.classList.toggle("few", Boolean(c));
    const a = c && { items: c.items / Math.max(1, c.seconds), errors: c.errors / Math.max(1, c.seconds) };
    TILES.forEach(([name, , value, small], n) => {
      put(made[n].value, value({ f, s, c, a }));
      put(made[n].small, small({ f, s, c, a }));
      // After the end, there is nothing under way of which these would tell.
      made[n].element.hidden = Boolean(c) && OF_NOW.includes(name) && ["0", "–"].includes(made[n].value.textContent);
      if (name === "failed") made[n].element.classList.toggle("alarm", s.failed > 0);
      if (name === "errors") made[n].element.classList.toggle("alarm", (c ?? s).errors > 0);
    });
  };
  return { element, show };
}

export function limits() {
  const text = h("p"), more = h("p", { class: "quiet" });
  const votes = h("div", { class: "votes", "aria-hidden": "true" }), legend = h("small", { class: "quiet" });
  const element = h("section", { class: "card pad limit", "data-name": "limit" },
    h("h2", {}, "Current limit"), text, h("div", {}, votes, legend), more);
  const show = (frontier) => {
    const { status } = frontier;
    put(text, status.state === "crawling" ? clean(page.about.limits[status.limit] ?? status.limit) : `The crawl is ${clean(status.state)}.`);
    element.dataset.limit = status.limit;
    const counts = {};
    for (const worker of status.workers) if (worker.alive) counts[worker.limit] = (counts[worker.limit] ?? 0) + 1;
    const found = Object.entries(counts).sort(([one], [other]) => one.localeCompare(other));
    keyed(votes, found, ([limit]) => limit, ([limit]) => {
      const part = h("i", { class: limit in page.about.limits ? limit : "none" });
      return { element: part, update: ([, count]) => { part.style.flexGrow = count; } };
    });
    const said = found.map(([limit, count]) => `${counted(count, "worker")}: ${limit === "none" ? "no limit" : limit}`).join(", ");
    put(legend, said);
    const unmet = status.unmet.map((one) => `No worker that is alive offers ${one.needs.join(" and ")}: requests that need it wait`);
    const following = status.following && `${counted(status.following, "request")} ${status.following === 1 ? "waits" : "wait"} until a group is finished`;
    const remarks = [...unmet, following, frontier.unshared && `Not shared: ${frontier.unshared}`, status.cut && `Read in part: ${status.cut}`].filter(Boolean);
    more.hidden = !remarks.length;
    put(more, clean(remarks.join(". ")));
  };
  return { element, show };
}
