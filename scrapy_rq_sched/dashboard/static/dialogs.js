// Messages, and actions with their dialog.

import { post } from "./api.js";
import { $, h, put } from "./elements.js";
import { page } from "./page.js";
import { clean } from "./text.js";

// Milliseconds without a key press after which the effect of what was typed is asked for.
const PAUSE = 250;

let toastTimer = 0;
export function say(text, isError = false) {
  const toast = $("toast");
  clearTimeout(toastTimer);
  toast.className = isError ? "toast error" : "toast";
  toast.hidden = false;
  toast.textContent = clean(text);
  toastTimer = setTimeout(hush, isError ? 12000 : 6000);
}

/** Remove the message: it concerns an earlier action, or another tab. */
export function hush() {
  $("toast").hidden = true;
}

const withWarning = ({ said, warning }) => (warning ? `${said}. ${warning}` : said);

async function perform(path, body, then) {
  const done = await post(path, body);
  say(withWarning(done), Boolean(done.warning));
  then(done);
  page.view.refresh?.();
}

/**
 * Do an action when the user confirms it. The dialog has its fields, and the effect, which a dry run describes.
 *
 * *bodyOf* returns the arguments, given the values of the fields; null if there are none yet.
 */
function confirmed(path, bodyOf, { title, text, button, danger, fields, then }) {
  const dialog = $("dialog");
  const inputs = fields.map(({ name, label, ...rest }) => [name, h("input", { name, ...rest }), label]);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const submit = h("button", { type: "submit", class: danger ? "main danger" : "main", disabled: true }, button);
  const effect = h("p", { id: "dialog-text", role: "status" });
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, clean(title)),
    text && h("p", { class: "quiet" }, clean(text)),
    ...inputs.map(([, input, label]) => h("label", {}, label, input)),
    h("div", { class: "effect" }, effect),
    h("div", { class: "buttons" }, cancel, submit));
  let turn = 0, timer = 0;
  const tell = (said, isRefused) => { put(effect, clean(said)); effect.className = isRefused ? "refused" : ""; };
  const wanted = () => {
    const body = bodyOf(Object.fromEntries(inputs.map(([name, input]) => [name, input.value.trim()])));
    return body && { spider: page.view.name, ...body };
  };
  const look = async () => {
    const mine = (turn += 1), isValid = form.checkValidity(), body = isValid && wanted();
    // The browser says what is wrong with a field when the form is sent.
    submit.disabled = isValid;
    if (!body) { tell(""); return; }
    try {
      const would = await post(path, { ...body, dry_run: true });
      if (mine !== turn) return;
      tell(withWarning(would));
      submit.disabled = false;
    } catch (error) {
      if (mine !== turn) return;
      tell(error.message, true);
      submit.hidden = !fields.length;
      if (submit.hidden) put(cancel, "Close");
    }
  };
  form.oninput = () => { turn += 1; submit.disabled = true; clearTimeout(timer); timer = setTimeout(look, PAUSE); };
  form.onsubmit = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      await perform(path, wanted(), then);
      dialog.close();
    } catch (error) {
      tell(error.message, true);
      submit.disabled = false;
    }
  };
  dialog.onclose = () => { turn += 1; clearTimeout(timer); };
  dialog.replaceChildren(form);
  dialog.showModal();
  (inputs[0]?.[1] ?? cancel).focus();
  look();
}

/** Do an action; first the user confirms it, unless *confirm* is false. The *body* may be a function of the fields' values. */
export async function act(path, body, { confirm = true, fields = [], then = () => {}, ...rest }) {
  hush();
  if (confirm) { confirmed(path, typeof body === "function" ? body : () => body, { fields, then, ...rest }); return; }
  try {
    await perform(path, { spider: page.view.name, ...body }, then);
  } catch (error) {
    say(error.message, true);
  }
}
