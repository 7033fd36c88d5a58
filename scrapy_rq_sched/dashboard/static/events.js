// The events of a spider.

import { get } from "./api.js";
import { h, keyed, put } from "./elements.js";
import { clean, clock, counted, date, number } from "./text.js";

/** The colours of events that are not alarming. */
const TONES = [[/paused|draining|stopped|blocked|unreachable|given_up/, "warn"], [/joined|started|resumed|going_on|has_room|free/, "good"], [/./, "calm"]];

export function eventList(name) {
  const list = h("ol", { "aria-live": "polite", "aria-relevant": "additions" });
  const empty = h("p", { class: "empty" }, "No events yet.");
  const element = h("aside", { class: "card events", "aria-label": "Events" }, h("header", {}, h("h2", {}, "Events")), list, empty);
  let events = [], last = "", asking = false;
  const make = (event) => {
    const tone = event.alarming ? "bad" : TONES.find(([pattern]) => pattern.test(event.type))[1];
    const text = h("span", { class: "theirs" }), times = h("b"), time = h("time"), worker = h("small", { class: "theirs" }), others = h("small");
    const update = (one) => {
      put(text, clean(one.text || one.type));
      put(times, one.count > 1 && !one.url ? ` ×${number(one.count)}` : "");
      others.hidden = !(one.url && one.count > 1);
      put(others, `and ${counted(one.count - 1, "other")} with the same error`);
      put(time, clock(one.time));
      time.title = one.count > 1 ? `${date(one.since)} – ${date(one.time)}` : date(one.time);
      const named = one.worker && !one.text.includes(one.worker);
      worker.hidden = !named;
      put(worker, named ? clean(`worker ${one.worker}`) : "");
    };
    const element = h("li", { "data-type": clean(event.type) }, h("i", { class: tone }), h("span", {}, text, times), time, worker, others);
    return { element, update };
  };
  const show = async (frontier) => {
    if (frontier.last_event === last || asking) return;
    asking = true;
    try {
      // Of equal events that follow each other there is one. It comes again when their number has grown.
      const found = (await get("events", { spider: name, since: last, limit: 100, folded: 1 })).events;
      const renewed = new Set(found.map((event) => event.first));
      events = [...found.reverse(), ...events.filter((event) => !renewed.has(event.first))].slice(0, 100);
      last = events[0]?.id ?? "";
      keyed(list, events, (event) => event.first, make);
    } catch { /* the next picture asks again */ }
    asking = false;
    empty.hidden = events.length > 0;
  };
  return { element, show };
}
