// The numbers of a spider, and its current limit.

import { h, hinted, keyed, put } from "./elements.js";
import { page } from "./page.js";
import { growth, timeLeft } from "./state.js";
import { clean, counted, left, number, rate, size } from "./text.js";

// What the words of the cards mean.
const HINTS = {
  leased: "Requests in hand: workers hold them, and have not finished them yet. If a worker dies, they go back to the queue. Delayed ones wait until a time, such as a retry after a worker's death.",
  alive: "Wanted: as many workers as would finish all that waits in ten minutes; no more than now if politeness, Redis, needs or pools limit the crawl.",
  left: "The time until nothing waits, if the crawl goes on as in the last minutes. Next turn: all slots wait for their delay or their block, and the first of them may begin a request then.",
};

export function tiles() {
  const TILES = [
    ["per_second", "Pages a second", (f, s) => rate(s.per_second), (f, s) => `${number(s.pages)} in all`],
    ["waiting", "Waiting", (f, s) => number(s.waiting), (f, s) => growth(s) || (s.waiting ? size(s.waiting_bytes) : "")],
    ["leased", "In hand", (f, s) => number(s.leased), (f, s) => (s.delayed ? `${number(s.delayed)} delayed` : "held by workers")],
    ["alive", "Workers", (f) => number(f.alive), (f, s) => [f.workers > f.alive && `${f.workers - f.alive} dead`, f.in_line && `${f.in_line} in line`, `${number(s.workers_wanted)} wanted`].filter(Boolean).join(", ")],
    ["failed", "Failed", (f, s) => number(s.failed), (f, s) => (s.failed ? "set aside" : "")],
    ["seeds", "Seeds", (f, s) => number(s.seeds), () => "not read yet"],
    ["seen", "Seen", (f, s) => number(s.seen), (f, s) => (s.seen ? size(s.seen_bytes) : "")],
    ["left", "Time left", (f, s) => timeLeft(s)[0], (f, s) => (s.next_turn_in > 0.05 ? `next turn in ${left(s.next_turn_in)}` : timeLeft(s)[1])],
  ];
  const made = TILES.map(([name, title]) => {
    const value = h("dd", { "data-name": name }), small = h("small");
    return { value, small, element: h("div", { class: "card tile" }, h("dt", {}, hinted(title, HINTS[name])), value, small) };
  });
  const show = (frontier) => TILES.forEach(([name, , value, small], n) => {
    put(made[n].value, value(frontier, frontier.status));
    put(made[n].small, small(frontier, frontier.status));
    if (name === "failed") made[n].element.classList.toggle("alarm", frontier.status.failed > 0);
  });
  return { element: h("dl", { class: "tiles" }, ...made.map((one) => one.element)), show };
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
    const said = found.map(([limit, count]) => `${counted(count, "worker")}: ${limit}`).join(", ");
    put(legend, said);
    const unmet = status.unmet.map((one) => `No worker that is alive offers ${one.needs.join(" and ")}: requests that need it wait`);
    const following = status.following && `${counted(status.following, "request")} ${status.following === 1 ? "waits" : "wait"} until a group is finished`;
    const remarks = [...unmet, following, frontier.unshared && `Not shared: ${frontier.unshared}`, status.cut && `Read in part: ${status.cut}`].filter(Boolean);
    more.hidden = !remarks.length;
    put(more, clean(remarks.join(". ")));
  };
  return { element, show };
}
