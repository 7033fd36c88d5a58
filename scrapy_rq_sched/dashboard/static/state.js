// The state of a crawl in words.

import { h, put } from "./elements.js";
import { clean, duration, rate } from "./text.js";

const STATES = {
  crawling: "good", idle: "calm", paused: "warn", draining: "warn", stopping: "warn", stopped: "bad",
  finished: "calm", converting: "calm", importing: "calm", new: "", unknown: "",
};

export function badge() {
  const element = h("span", { class: "badge", hidden: true });
  return { element, show: (state) => { element.hidden = false; element.className = `badge ${STATES[state] ?? ""}`; put(element, clean(state)); } };
}

/** Return the estimated time until the end of the crawl, and how certain it is. */
export function timeLeft(status) {
  if (status.seconds_left != null && status.growth != null) return [duration(status.seconds_left), "about"];
  if (status.seconds_left_at_least != null) return [duration(status.seconds_left_at_least), "at least"];
  return ["–", ""];
}

export function growth(status) {
  if (status.growth == null || Math.abs(status.growth) < 0.05) return "";
  return `${status.growth > 0 ? "+" : "−"}${rate(Math.abs(status.growth))} a second`;
}
