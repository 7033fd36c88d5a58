// The events of a spider.

import { get } from "./api.js";
import { h, keyed, theirs } from "./elements.js";
import { clean, clock, date } from "./text.js";

/** The colours of events that are not alarming. */
const TONES = [[/paused|draining|stopped|blocked|unreachable|given_up/, "warn"], [/joined|started|resumed|going_on|has_room|free/, "good"], [/./, "calm"]];

export function eventList(name) {
  const list = h("ol", { "aria-live": "polite", "aria-relevant": "additions" });
  const empty = h("p", { class: "empty" }, "No events yet.");
  const element = h("aside", { class: "card events", "aria-label": "Events" }, h("header", {}, h("h2", {}, "Events")), list, empty);
  let events = [], last = "", asking = false;
  const make = (event) => {
    const tone = event.alarming ? "bad" : TONES.find(([pattern]) => pattern.test(event.type))[1];
    const worker = event.worker && !event.text.includes(event.worker) && `worker ${event.worker}`;
    return { element: h("li", { "data-type": clean(event.type) }, h("i", { class: tone }), theirs(event.text || event.type),
      h("time", { title: date(event.time) }, clock(event.time)), worker && h("small", { class: "theirs" }, clean(worker))) };
  };
  const show = async (frontier) => {
    if (frontier.last_event === last || asking) return;
    asking = true;
    try {
      const found = (await get("events", { spider: name, since: last, limit: 100 })).events;
      const known = new Set(events.map((event) => event.id));
      events = [...found.filter((event) => !known.has(event.id)).reverse(), ...events].slice(0, 100);
      last = events[0]?.id ?? "";
      keyed(list, events, (event) => event.id, make);
    } catch { /* the next picture asks again */ }
    asking = false;
    empty.hidden = events.length > 0;
  };
  return { element, show };
}
