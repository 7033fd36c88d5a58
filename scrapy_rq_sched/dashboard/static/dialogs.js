// Messages, questions and actions.

import { post } from "./api.js";
import { $, h } from "./elements.js";
import { page } from "./page.js";
import { clean } from "./text.js";

let toastTimer = 0;
export function say(text, isError = false) {
  const toast = $("toast");
  clearTimeout(toastTimer);
  toast.className = isError ? "toast error" : "toast";
  toast.hidden = false;
  toast.textContent = clean(text);
  toastTimer = setTimeout(() => { toast.hidden = true; }, isError ? 12000 : 6000);
}

/** Show a dialog; return the values of its fields, or null if the user cancels. */
export function ask({ title, text, button, danger = false, fields = [] }) {
  const dialog = $("dialog");
  const inputs = fields.map(({ name, label, ...rest }) => [name, h("input", { name, ...rest }), label]);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, clean(title)),
    text && h("p", { id: "dialog-text" }, clean(text)),
    ...inputs.map(([, input, label]) => h("label", {}, label, input)),
    h("div", { class: "buttons" }, cancel, h("button", { type: "submit", class: danger ? "main danger" : "main" }, button)));
  dialog.replaceChildren(form);
  return new Promise((resolve) => {
    let values = null;
    form.onsubmit = (event) => {
      event.preventDefault();
      values = Object.fromEntries(inputs.map(([name, input]) => [name, input.value.trim()]));
      dialog.close();
    };
    dialog.onclose = () => resolve(values);
    dialog.showModal();
    (inputs[0]?.[1] ?? cancel).focus();
  });
}

const withWarning = ({ said, warning }) => (warning ? `${said}. ${warning}` : said);

/** Do an action. First the user confirms its effect, which a dry run describes. */
export async function act(path, body, { title, button, danger = false, confirm = true, then = () => {} }) {
  const whole = { spider: page.view.name, ...body };
  try {
    if (confirm) {
      const would = await post(path, { ...whole, dry_run: true });
      if (!(await ask({ title, text: withWarning(would), button, danger }))) return false;
    }
    const done = await post(path, whole);
    say(withWarning(done), Boolean(done.warning));
    then(done);
    page.view.refresh?.();
    return true;
  } catch (error) {
    say(error.message, true);
    return false;
  }
}
