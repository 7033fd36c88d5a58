// Tabs, and the pages of a list.

import { hush } from "./dialogs.js";
import { h, put } from "./elements.js";
import { page } from "./page.js";
import { clean, number } from "./text.js";

/** Return tabs. The selected one is loaded again every two seconds. */
export function tabs(all) {
  const bar = h("div", { role: "tablist", "aria-label": "Details" });
  const panels = h("div");
  let shown = null, timer = 0;
  const refresh = async () => {
    clearTimeout(timer);
    const tab = shown;
    if (document.hidden || !tab?.load || !page.view.isThere) return;
    try { await tab.load(); tab.note.hidden = true; } catch (error) { tab.note.hidden = false; put(tab.note, clean(error.message)); }
    if (shown === tab && bar.isConnected) { clearTimeout(timer); timer = setTimeout(refresh, 2000); }
  };
  const select = (tab, focus = false) => {
    shown = tab;
    for (const one of all) {
      one.button.setAttribute("aria-selected", one === tab);
      one.button.tabIndex = one === tab ? 0 : -1;
      one.panel.hidden = one !== tab;
    }
    if (focus) tab.button.focus();
    hush();
    const hidden = tab.button.offsetLeft + tab.button.offsetWidth - bar.offsetLeft - bar.clientWidth;
    if (hidden > bar.scrollLeft || tab.button.offsetLeft - bar.offsetLeft < bar.scrollLeft) bar.scrollLeft = hidden + 12;
    history.replaceState(null, "", `#/s/${encodeURIComponent(page.view.name)}/${[tab.id, tab.place?.()].filter(Boolean).join("/")}`);
    refresh();
  };
  for (const tab of all) {
    tab.button = h("button", { role: "tab", id: `tab-${tab.id}`, "aria-controls": `panel-${tab.id}`, onclick: () => { tab.open?.(""); select(tab); } }, tab.title, h("span"));
    tab.note = h("p", { class: "note", role: "status", hidden: true });
    tab.panel = h("div", { role: "tabpanel", id: `panel-${tab.id}`, "aria-labelledby": `tab-${tab.id}`, tabindex: 0 }, tab.note, tab.element);
    bar.append(tab.button);
    panels.append(tab.panel);
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = all.indexOf(shown);
    const next = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : step && (place + step + all.length) % all.length;
    if (next === undefined) return;
    event.preventDefault();
    select(all[next], true);
  });
  const count = (id, text) => put(all.find((tab) => tab.id === id).button.lastChild, text);
  // A tab may have places of its own, which *open* shows: the rest of the address.
  const choose = (id, rest = "") => {
    const tab = all.find((one) => one.id === id) ?? all[0];
    tab.open?.(rest);
    select(tab);
  };
  /** Bring the tabs into sight, after a link to one of them. */
  const reveal = () => {
    const { top } = bar.getBoundingClientRect();
    if (top < 0 || top > 0.6 * window.innerHeight) bar.scrollIntoView();
  };
  return { element: h("section", { class: "card details" }, bar, panels), choose, reveal, count, refresh };
}

export function pager(page, go) {
  let offset = 0;
  const text = h("span", { class: "quiet" });
  const back = h("button", { class: "small", onclick: () => go(Math.max(0, offset - page)) }, "Back");
  const on = h("button", { class: "small", onclick: () => go(offset + page) }, "Next");
  const element = h("div", { class: "buttons", hidden: true }, back, on, text);
  const show = (from, total) => {
    offset = from;
    element.hidden = total <= page;
    back.disabled = !from;
    on.disabled = from + page >= total;
    put(text, `${number(from + 1)}–${number(Math.min(total, from + page))} of ${number(total)}`);
  };
  return { element, show };
}
