// Push seeds, and forget URLs.

import { act } from "./dialogs.js";
import { h } from "./elements.js";

export function seedTab() {
  const lines = (text) => text.value.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
  const seeds = h("textarea", { name: "seeds", required: true, spellcheck: "false", placeholder: "https://…" });
  const priority = h("input", { name: "priority", type: "number", step: 1 });
  const urls = h("textarea", { name: "urls", required: true, spellcheck: "false", placeholder: "https://…" });
  const crawl = h("input", { type: "checkbox", name: "crawl" });
  const push = h("form", { class: "stack", onsubmit: (event) => {
    event.preventDefault();
    const body = { seeds: lines(seeds), ...(priority.value && { priority: Number(priority.value) }) };
    act("seed", body, { title: "Push these seeds?", button: "Push", then: () => { seeds.value = ""; } });
  } }, h("h2", {}, "Push seeds"), h("label", {}, "URLs or JSON objects, one per line", seeds),
    h("label", {}, "Priority of seeds without one", priority), h("div", {}, h("button", { class: "main" }, "Push seeds")));
  const forget = h("form", { class: "stack", onsubmit: (event) => {
    event.preventDefault();
    act("forget", { urls: lines(urls), crawl: crawl.checked }, { title: "Forget these URLs?", button: "Forget", danger: true, then: () => { urls.value = ""; } });
  } }, h("h2", {}, "Forget URLs"), h("label", {}, "URLs that count as not seen then, one per line", urls),
    h("label", { class: "inline" }, crawl, "Crawl them again: push them as seeds, too"), h("div", {}, h("button", { class: "danger" }, "Forget URLs")));
  return { id: "seed", title: "Seed", element: h("div", { class: "pair" }, push, forget) };
}
