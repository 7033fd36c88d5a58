// The next requests of a spider, and the explanation of a URL.

import { get } from "./api.js";
import { h, link, put, table, theirs } from "./elements.js";
import { clean, date, number } from "./text.js";

export function nextTab(name) {
  const columns = [
    { title: "Place", num: true, text: (r) => r.place },
    { title: "URL", lead: true, mark: (r) => [r.url, r.problem], parts: (r) => (r.url ? link(r.url) : theirs(r.problem)) },
    { title: "Priority", num: true, text: (r) => number(r.priority) },
    { title: "Method", text: (r) => (r.problem ? "–" : r.request?.method ?? "GET") },
    { title: "Callback", text: (r) => (r.problem ? "–" : r.request?.callback ?? "parse") },
  ];
  const shown = table(columns, (one) => one.place);
  const note = h("p", { class: "note" }), empty = h("p", { class: "empty" }, "No requests are waiting.");
  const load = async () => {
    const { requests, problem } = await get("peek", { spider: name });
    shown.show(requests);
    empty.hidden = requests.length > 0;
    shown.element.hidden = !requests.length;
    note.hidden = !problem;
    put(note, clean(problem));
  };
  return { id: "next", title: "Next requests", element: h("div", {}, note, shown.element, empty), load };
}

export function explainTab(name) {
  const input = h("input", { name: "url", required: true, autocomplete: "off", spellcheck: "false", placeholder: "https://…" });
  const button = h("button", { type: "submit", class: "main" }, "Explain"), result = h("div", { "aria-live": "polite" });
  const where = (place) => `${place.before == null ? "in no order" : `${number(place.before)} before it`}${place.slot ? `, in slot ${place.slot}` : ""}`;
  const facts = (found) => [
    ["Seen", found.seen || found.started ? "yes" : found.exists ? "no" : "unknown: the crawl has ended, and its fingerprints are removed"],
    ["Waiting", [...found.waiting, ...found.seeds].map(where).join("; ") || "no"],
    ["In hand", found.leased.map((held) => `${held.worker}${held.alive ? "" : ", which is dead"}`).join("; ") || "no"],
    ["Failed", found.failed.map((one) => `${date(one.time)}: ${one.reason}`).join("; ") || "no"],
    ["Ended", found.outcomes.map((one) => `${date(one.time)}: ${one.text}${one.has_raised ? "; its callback raised an exception" : ""}${one.worker ? `, at worker ${one.worker}` : ""}`).join("; ") || "–"],
    ["Deaths", found.history.join(" ") || "–"],
    ["Fingerprint", found.fingerprint],
  ];
  const form = h("form", { class: "row", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    result.replaceChildren(h("p", { class: "quiet" }, "Searching the waiting requests…"));
    try {
      const found = await get("explain", { spider: name, url: input.value });
      result.replaceChildren(
        h("div", { class: "verdict" }, ...found.verdict.map((line) => theirs(line, "p"))),
        h("dl", { class: "facts" }, ...facts(found).flatMap(([label, text]) => [h("dt", {}, label), theirs(text, "dd")])),
        h("details", {}, h("summary", {}, "All details, as JSON"), h("pre", { class: "theirs" }, clean(JSON.stringify(found, null, 2)))));
    } catch (error) {
      result.replaceChildren(theirs(error.message, "p"));
    }
    button.disabled = false;
  } }, h("label", {}, "Why was it not crawled? Enter a URL, or a JSON object as for a seed", input), button);
  return { id: "explain", title: "Explain a URL", element: h("div", {}, form, result) };
}
