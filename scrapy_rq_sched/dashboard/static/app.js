// The page of `scrapy frontier dashboard`, a client of its JSON API: which view is shown, and the pictures it follows.
//
// Each module beside this one has one subject. `page.js` has what they share.

import { address, get, post } from "./api.js";
import { hush, say } from "./dialogs.js";
import { $, h, put, theirs } from "./elements.js";
import { overview } from "./overview.js";
import { page } from "./page.js";
import { spider } from "./spider.js";
import { clean, clock, named } from "./text.js";

const POLL = 2000, SILENCE = 20000, RETRY = 30000;
/** A name for this browser: its windows share six connections, of which streams must not take all. */
const browser = (() => {
  try {
    localStorage.browser ||= Math.random().toString(36).slice(2);
    return localStorage.browser;
  } catch { return null; /* it keeps nothing */ }
})();
let source = null, timer = 0, turn = 0, retryAt = 0;

function shown(kind, text, problem) {
  const live = $("live");
  live.className = `pill ${kind}`;
  put(live, text);
  $("problem").hidden = !problem;
  put($("problem"), clean(problem));
  $("main").classList.toggle("stale", Boolean(problem));
}

function receive(picture, how) {
  const away = picture.redis && picture.known !== false;
  const taken = picture.taken ? ` The page shows the state at ${clock(picture.taken)}.` : "";
  shown(away ? "bad" : how === "live" ? "good" : "calm", away ? "Redis is away" : how, away ? `${picture.redis}.${taken}` : "");
  page.view.show(picture);
}

/** Stop following; return a function that tells whether nothing else is followed since. */
function hang() {
  source?.close();
  source = null;
  clearTimeout(timer);
  turn += 1;
  const mine = turn;
  return () => mine === turn;
}

/** Poll, where a stream does not work. */
async function poll() {
  const isMine = hang();
  let picture = null;
  try {
    picture = await get("status", { spider: page.view.name });
  } catch (error) {
    if (!isMine()) return;
    if (error.status === 404) picture = { redis: error.message, known: false, frontier: null };
    else shown("bad", "no answer", error.message);
  }
  if (!isMine()) return;
  if (picture) receive(picture, "polling");
  timer = setTimeout(window.EventSource && Date.now() > retryAt ? follow : poll, POLL);
}

/** Follow the stream. If it breaks off, poll, and try the stream again later. */
function follow() {
  if (!window.EventSource) { poll(); return; }
  const isMine = hang();
  retryAt = Date.now() + RETRY;
  source = new EventSource(address("stream", { spider: page.view.name, browser }));
  const watch = () => { clearTimeout(timer); timer = setTimeout(poll, SILENCE); };
  source.onmessage = (event) => { if (isMine()) { watch(); receive(JSON.parse(event.data), "live"); } };
  source.addEventListener("ping", () => { if (isMine()) watch(); });
  source.onerror = () => { if (isMine()) poll(); };
  watch();
}

function go() {
  const [, kind, name, tab, rest] = location.hash.split("/");
  let decoded = null;
  try { decoded = kind === "s" && name ? decodeURIComponent(name) : null; } catch { /* as if there were no name */ }
  if (page.view && decoded != null && page.view.name === decoded) { page.view.choose(tab, rest); page.view.reveal(); return; }
  hush();
  $("dialog").close();
  page.view = decoded == null ? overview() : spider(decoded);
  $("where").replaceChildren(...(decoded == null ? [] : [h("a", { href: "#/" }, "All spiders"), " / ", theirs(named(decoded), "b")]));
  $("main").replaceChildren(page.view.element);
  page.view.choose?.(tab, rest);
  window.scrollTo(0, 0);
  follow();
}

async function start() {
  try {
    page.about = await get("about");
  } catch (error) {
    shown("bad", "no answer", error.message);
    setTimeout(start, POLL);
    return;
  }
  put($("mode"), page.about.actions ? "actions allowed" : "read-only");
  $("mode").classList.toggle("warn", page.about.actions);
  $("logout").hidden = !page.about.has_session;
  $("logout").addEventListener("click", () => post("logout", {}).then(() => location.reload(), (error) => say(error.message, true)));
  window.addEventListener("hashchange", go);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hang();
    else { follow(); page.view.refresh?.(); }
  });
  go();
}

start();
