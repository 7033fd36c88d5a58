// The audit list of a spider.

import { get } from "./api.js";
import { h, table, theirs } from "./elements.js";
import { clean, date } from "./text.js";

export function auditTab(name) {
  const columns = [
    { title: "Time", text: (a) => date(a.time) },
    { title: "User", text: (a) => a.who },
    { title: "Action", lead: true, text: (a) => a.action },
    { title: "Arguments", mark: (a) => a.arguments, parts: (a) => (Object.keys(a.arguments ?? {}).length ? h("code", { class: "theirs" }, clean(JSON.stringify(a.arguments)).slice(0, 300)) : "–") },
    { title: "Result", mark: (a) => a.result, parts: (a) => theirs(a.result) },
  ];
  const shown = table(columns, (one) => `${one.time} ${one.action}`), empty = h("p", { class: "empty" }, "No actions yet.");
  const load = async () => {
    const { audit } = await get("audit", { spider: name, limit: 200 });
    shown.show(audit);
    empty.hidden = audit.length > 0;
    shown.element.hidden = !audit.length;
  };
  return { id: "audit", title: "Audit list", element: h("div", {}, shown.element, empty), load };
}
