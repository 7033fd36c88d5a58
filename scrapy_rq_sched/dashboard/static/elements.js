// Elements of the page.
//
// Data from Redis may come from anybody: show it as text, never as markup, and link only to http and https.

import { clean } from "./text.js";

export const $ = (id) => document.getElementById(id);

/** Return a new element with properties and children (elements or text). */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null && child !== false));
  return element;
}

export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const theirs = (text, tag = "span") => h(tag, { class: "theirs" }, clean(text));

/** Return a link if *url* is http or https, else text. */
export function link(url) {
  let parsed = null;
  try { parsed = new URL(url); } catch { /* it is text */ }
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) return theirs(url);
  return h("a", { class: "theirs", href: parsed.href, target: "_blank", rel: "noreferrer noopener" }, clean(url));
}

let hints = 0;

/** Return *text* with an explanation, which is shown while somebody points at it or has moved the focus there. */
export function hinted(text, hint) {
  if (!hint) return text;
  const id = `hint-${(hints += 1)}`;
  return h("span", { class: "hint", tabindex: 0, "aria-describedby": id }, text, h("span", { id, role: "tooltip" }, hint));
}

export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make *parent* contain an element for each item, in order. Existing elements stay, with their focus. */
export function keyed(parent, items, key, make) {
  const known = parent.known ??= new Map();
  const wanted = new Set(items.map(key));
  for (const [name, made] of known) if (!wanted.has(name)) { made.element.remove(); known.delete(name); }
  let before = null;
  for (const item of items) {
    let made = known.get(key(item));
    if (!made) known.set(key(item), (made = make(item)));
    made.update?.(item);
    const next = before ? before.nextSibling : parent.firstChild;
    if (made.element !== next) parent.insertBefore(made.element, next);
    before = made.element;
  }
}

/** Return a table. A column has a title, perhaps a hint, and either `text`, or `parts` (elements) and `mark` (the data they show). */
export function table(columns, key) {
  const body = h("tbody");
  const heads = columns.map((column) => h("th", { scope: "col", class: column.num && "num" }, hinted(column.title, column.hint)));
  const element = h("div", { class: "scroll" }, h("table", { class: "stacked" }, h("thead", {}, h("tr", {}, ...heads)), body));
  const make = () => {
    const cells = columns.map((c) => h("td", { class: [c.num && "num", c.lead && "lead"].filter(Boolean).join(" ") || null, "data-label": c.title }));
    const update = (item) => columns.forEach((column, place) => {
      const cell = cells[place];
      if (column.text) {
        put(cell, clean(column.text(item)));
        cell.classList.toggle("nothing", cell.textContent === "–");
        return;
      }
      const mark = JSON.stringify(column.mark ? column.mark(item) : item);
      if (cell.mark !== mark) { cell.mark = mark; cell.replaceChildren(...[column.parts(item)].flat().filter(Boolean)); }
    });
    return { element: h("tr", {}, ...cells), update };
  };
  return { element, show: (items) => keyed(body, items, key, make) };
}
