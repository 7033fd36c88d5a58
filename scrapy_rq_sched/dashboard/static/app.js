// The page of `scrapy frontier dashboard`: a client of the JSON API at api/v1/, relative to the page.
//
// Data from Redis may come from anybody: show it as text, never as markup, and link only to http and https.

// -- text ------------------------------------------------------------------------------------------------

// Control characters, marks without a shape, separators of lines, and letters that look like nothing.
const NOT_SHOWN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;
const LONGEST = 20000, LONGEST_NAME = 500;
const escaped = (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`;

/** Return *text* with escapes for characters that could hide or reverse the text beside it. */
function clean(text, longest = LONGEST) {
  const whole = String(text ?? "");
  const shown = whole.slice(0, longest).replace(NOT_SHOWN, escaped);
  return whole.length > longest ? `${shown}…` : shown;
}

/** Return a name as one line: two names that differ also look different. */
const named = (text) => clean(text, LONGEST_NAME).replace(/[\t\n]/g, escaped);

/** Return *text* as one word of a shell command. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

const number = (value) => Math.round(value ?? 0).toLocaleString("en-US");
const rate = (value) => (value >= 100 ? number(value) : (value ?? 0).toFixed(1));
const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function duration(seconds) {
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(left / length);
    left %= length;
    if (count || parts.length || unit === "s") parts.push([count, unit]);
  }
  return parts.slice(0, 2).filter(([count]) => count).map((part) => part.join(" ")).join(" ") || "0 s";
}

function size(bytes) {
  if (bytes == null) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes, unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1000; unit += 1; }
  return `about ${value >= 10 || !unit ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const clock = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleTimeString() : "–");
const date = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString() : "–");

// -- elements --------------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

/** Return a new element with properties and children (elements or text). */
function h(tag, properties = {}, ...children) {
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

function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const theirs = (text, tag = "span") => h(tag, { class: "theirs" }, clean(text));

/** Return a link if *url* is http or https, else text. */
function link(url) {
  let parsed = null;
  try { parsed = new URL(url); } catch { /* it is text */ }
  if (!parsed || !["http:", "https:"].includes(parsed.protocol)) return theirs(url);
  return h("a", { class: "theirs", href: parsed.href, target: "_blank", rel: "noreferrer noopener" }, clean(url));
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make *parent* contain an element for each item, in order. Existing elements stay, with their focus. */
function keyed(parent, items, key, make) {
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

/** Return a table. A column has a title and either `text`, or `parts` (elements) and `mark` (the data they show). */
function table(columns, key) {
  const body = h("tbody");
  const heads = columns.map((column) => h("th", { scope: "col", class: column.num && "num" }, column.title));
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

// -- the API ---------------------------------------------------------------------------------------------

const address = (path, query = {}) => {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) if (value != null) url.searchParams.set(name, value);
  url.hash = "";
  // A browser refuses to fetch a URL with a login. It sends the login of the page by itself.
  url.username = url.password = "";
  return url;
};

async function answered(promise) {
  const response = await promise.catch(() => { throw new Error("The dashboard does not answer. Check that its process still runs"); });
  const said = await response.json().catch(() => ({}));
  // The session has ended, or the dashboard was started again: its answer is now the page of the login.
  if (response.status === 401 && about.has_session) location.reload();
  if (!response.ok) throw Object.assign(new Error(said.error || `The dashboard answered with status ${response.status}`), { status: response.status });
  return said;
}

const get = (path, query) => answered(fetch(address(path, query), { cache: "no-store" }));
const post = (path, body) => answered(fetch(address(path), {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
}));

// -- messages and dialogs --------------------------------------------------------------------------------

let toastTimer = 0;
function say(text, isError = false) {
  const toast = $("toast");
  clearTimeout(toastTimer);
  toast.className = isError ? "toast error" : "toast";
  toast.hidden = false;
  toast.textContent = clean(text);
  toastTimer = setTimeout(() => { toast.hidden = true; }, isError ? 12000 : 6000);
}

/** Show a dialog; return the values of its fields, or null if the user cancels. */
function ask({ title, text, button, danger = false, fields = [] }) {
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
async function act(path, body, { title, button, danger = false, confirm = true, then = () => {} }) {
  const whole = { spider: view.name, ...body };
  try {
    if (confirm) {
      const would = await post(path, { ...whole, dry_run: true });
      if (!(await ask({ title, text: withWarning(would), button, danger }))) return false;
    }
    const done = await post(path, whole);
    say(withWarning(done), Boolean(done.warning));
    then(done);
    view.refresh?.();
    return true;
  } catch (error) {
    say(error.message, true);
    return false;
  }
}

// -- charts ----------------------------------------------------------------------------------------------

const BUCKET = 10;

/** Return points of the rate and of the waiting requests, every ten seconds, from the history of a status. */
function series(history, now, span) {
  const byTime = new Map(history.map(([second, pages, waiting]) => [second, { pages, waiting }]));
  const last = Math.floor(now / BUCKET) * BUCKET;
  const points = [];
  let waiting = history[0]?.[2] ?? 0;
  for (let second = last - span + BUCKET; second <= last; second += BUCKET) {
    const moment = byTime.get(second);
    waiting = moment ? moment.waiting : waiting;
    // The present ten seconds are too short for a rate at their beginning.
    const lasted = second === last ? now - last : BUCKET;
    if (lasted < 4) continue;
    points.push({ second, rate: (moment?.pages ?? 0) / lasted, waiting });
  }
  return points;
}

/** Return a round number at or above *value*. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return ([1, 2, 4, 5, 10].find((n) => n * power >= value) ?? 10) * power || 1;
}

const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : value >= 1e3 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(1)}`);

function paths(values, most, width = 600, height = 100) {
  const step = width / Math.max(1, values.length - 1);
  const dots = values.map((value, n) => `${(n * step).toFixed(1)},${(height - (height * value) / most).toFixed(1)}`);
  if (dots.length === 1) dots.push(`${width},${dots[0].split(",")[1]}`);
  return { line: `M${dots.join("L")}`, area: `M0,${height}L${dots.join("L")}L${width},${height}Z` };
}

function chart(title, pick, unit, kind) {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "stroke" });
  const rules = [0, 50, 100].map((y) => svg("path", { class: "rule", d: `M0,${y}H600` }));
  const drawing = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rules, area, line);
  const labels = [0, 50, 100].map(() => h("span", { class: "y" }));
  labels.forEach((label, n) => { label.style.top = `${50 * n}%`; });
  const cursor = h("div", { class: "cursor", hidden: true });
  const plot = h("div", { class: "plot", role: "img" }, drawing, ...labels, cursor);
  const output = h("output");
  const from = h("span"), until = h("span", {}, "now");
  let points = [], now = "";
  const leave = () => { cursor.hidden = true; put(output, now); };
  plot.addEventListener("pointermove", (event) => {
    if (!points.length) return;
    const box = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const point = points[Math.round(share * (points.length - 1))];
    cursor.hidden = false;
    cursor.style.left = `${100 * share}%`;
    put(output, `${clock(point.second)} · ${unit(pick(point))}`);
  });
  plot.addEventListener("pointerleave", leave);
  const element = h("section", { class: `card pad chart ${kind}` },
    h("header", {}, h("h2", {}, title), output), plot, h("div", { class: "xs", "aria-hidden": "true" }, from, until));
  const show = (found, label) => {
    points = found;
    const values = points.map(pick), most = ceiling(Math.max(0, ...values));
    const drawn = paths(values.length ? values : [0], most);
    area.setAttribute("d", drawn.area);
    line.setAttribute("d", drawn.line);
    labels.forEach((one, n) => put(one, short(most * (1 - n / 2))));
    now = label;
    if (cursor.hidden) put(output, now);
    const span = points.length ? points.at(-1).second - points[0].second + BUCKET : 0;
    put(from, `${duration(Math.round(span / 60) * 60)} ago`);
    plot.setAttribute("aria-label", `${title}: ${label} now, at most ${unit(Math.max(0, ...values))} in the last ${duration(span)}`);
  };
  return { element, show };
}

function sparkline() {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "stroke" });
  const element = svg("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  const show = (values) => {
    const drawn = paths(values.length ? values : [0], (Math.max(...values, 0) || 1) * 1.08);
    area.setAttribute("d", drawn.area);
    line.setAttribute("d", drawn.line);
  };
  return { element, show };
}

// -- texts for values of the API -------------------------------------------------------------------------

const STATES = {
  crawling: "good", idle: "calm", paused: "warn", draining: "warn", stopping: "warn", stopped: "bad",
  finished: "calm", converting: "calm", importing: "calm", new: "",
};
/** The colours of events that are not alarming. */
const TONES = [[/paused|draining|stopped|blocked|unreachable|given_up/, "warn"], [/joined|started|resumed|going_on|has_room|free/, "good"], [/./, "calm"]];

function badge() {
  const element = h("span", { class: "badge", "data-name": "state" });
  return { element, show: (state) => { element.className = `badge ${STATES[state] ?? ""}`; put(element, clean(state)); } };
}

/** Return the estimated time until the end of the crawl, and how certain it is. */
function timeLeft(status) {
  if (status.seconds_left != null && status.growth != null) return [duration(status.seconds_left), "about"];
  if (status.seconds_left_at_least != null) return [duration(status.seconds_left_at_least), "at least"];
  return ["–", ""];
}

function growth(status) {
  if (status.growth == null || Math.abs(status.growth) < 0.05) return "";
  return `${status.growth > 0 ? "+" : "−"}${rate(Math.abs(status.growth))} a second`;
}

// -- all spiders -----------------------------------------------------------------------------------------

function overview() {
  const list = h("ul", { class: "spiders" });
  const empty = h("p", { class: "empty" }, "This Redis has no crawl: no worker has joined one yet, or all crawls are finished.");
  const note = h("p", { class: "note", hidden: true });
  const element = h("div", {}, h("div", { class: "head" }, h("h1", {}, "All spiders")), note, list, empty);
  const NUMBERS = [
    ["Pages a second", (f) => rate(f.status.per_second)], ["Waiting", (f) => number(f.status.waiting)],
    ["Workers", (f) => number(f.alive)], ["Failed", (f) => number(f.status.failed)],
  ];
  const make = ({ name }) => {
    const state = badge(), line = sparkline(), title = h("h2", { class: "theirs" });
    const values = NUMBERS.map(() => h("dd"));
    const card = h("a", { class: "card spider", href: `#/s/${encodeURIComponent(name)}` },
      h("header", {}, title, state.element), line.element,
      h("dl", {}, ...NUMBERS.map(([label], n) => h("div", {}, h("dt", {}, label), values[n]))));
    const update = (frontier) => {
      put(title, named(frontier.name));
      state.show(frontier.status.state);
      line.show(series(frontier.status.history, frontier.status.now, 600).map((point) => point.rate));
      NUMBERS.forEach(([, value], n) => put(values[n], value(frontier)));
    };
    return { element: h("li", {}, card), update };
  };
  const show = ({ frontiers, total, redis }) => {
    keyed(list, frontiers, (frontier) => frontier.name, make);
    empty.hidden = frontiers.length > 0 || Boolean(redis);
    note.hidden = total <= frontiers.length;
    put(note, `The first ${number(frontiers.length)} of ${number(total)}`);
    document.title = "Frontier";
  };
  return { element, show, path: "stream", name: null };
}

// -- one spider ------------------------------------------------------------------------------------------

function tiles() {
  const TILES = [
    ["per_second", "Pages a second", (f, s) => rate(s.per_second), (f, s) => `${number(s.pages)} in all`],
    ["waiting", "Waiting", (f, s) => number(s.waiting), (f, s) => growth(s) || (s.waiting ? size(s.waiting_bytes) : "")],
    ["leased", "In hand", (f, s) => number(s.leased), (f, s) => (s.delayed ? `${number(s.delayed)} delayed` : "held by workers")],
    ["alive", "Workers", (f) => number(f.alive), (f, s) => [f.workers > f.alive && `${f.workers - f.alive} dead`, f.in_line && `${f.in_line} in line`, `${number(s.workers_wanted)} wanted`].filter(Boolean).join(", ")],
    ["failed", "Failed", (f, s) => number(s.failed), (f, s) => (s.failed ? "set aside" : "")],
    ["seeds", "Seeds", (f, s) => number(s.seeds), () => "not read yet"],
    ["seen", "Seen", (f, s) => number(s.seen), (f, s) => (s.seen ? size(s.seen_bytes) : "")],
    ["left", "Time left", (f, s) => timeLeft(s)[0], (f, s) => (s.next_turn_in > 0.05 ? `next turn in ${s.next_turn_in.toFixed(1)} s` : timeLeft(s)[1])],
  ];
  const made = TILES.map(([name, title]) => {
    const value = h("dd", { "data-name": name }), small = h("small");
    return { value, small, element: h("div", { class: "card tile" }, h("dt", {}, title), value, small) };
  });
  const show = (frontier) => TILES.forEach(([name, , value, small], n) => {
    put(made[n].value, value(frontier, frontier.status));
    put(made[n].small, small(frontier, frontier.status));
    if (name === "failed") made[n].element.classList.toggle("alarm", frontier.status.failed > 0);
  });
  return { element: h("dl", { class: "tiles" }, ...made.map((one) => one.element)), show };
}

function limits() {
  const text = h("p"), more = h("p", { class: "quiet" });
  const votes = h("div", { class: "votes", "aria-hidden": "true" }), legend = h("small", { class: "quiet" });
  const element = h("section", { class: "card pad limit", "data-name": "limit" },
    h("h2", {}, "Current limit"), text, h("div", {}, votes, legend), more);
  const show = (frontier) => {
    const { status } = frontier;
    put(text, status.state === "crawling" ? clean(about.limits[status.limit] ?? status.limit) : `The crawl is ${clean(status.state)}.`);
    element.dataset.limit = status.limit;
    const counts = {};
    for (const worker of status.workers) if (worker.alive) counts[worker.limit] = (counts[worker.limit] ?? 0) + 1;
    const found = Object.entries(counts).sort(([one], [other]) => one.localeCompare(other));
    keyed(votes, found, ([limit]) => limit, ([limit]) => {
      const part = h("i", { class: limit in about.limits ? limit : "none" });
      return { element: part, update: ([, count]) => { part.style.flexGrow = count; } };
    });
    const said = found.map(([limit, count]) => `${counted(count, "worker")}: ${limit}`).join(", ");
    put(legend, said);
    const unmet = status.unmet.map((one) => `No worker that is alive offers ${one.needs.join(" and ")}: requests that need it wait`);
    const following = status.following && `${counted(status.following, "request")} ${status.following === 1 ? "waits" : "wait"} until a group is finished`;
    const remarks = [...unmet, following, frontier.unshared && `Not shared: ${frontier.unshared}`, status.cut && `Read in part: ${status.cut}`].filter(Boolean);
    more.hidden = !remarks.length;
    put(more, clean(remarks.join(". ")));
  };
  return { element, show };
}

/** Return the pools and their items. It is hidden if there are none. */
function poolList(name) {
  const TONE = { free: "good", "in use": "calm", rests: "warn", waits: "warn", retired: "bad" };
  const add = async (pool) => {
    const given = await ask({ title: `Add to ${pool}`, text: "An item is a text, or a JSON object with a name. The name of an item that is there uses it again. The page never shows more of it than its name.", button: "Continue", fields: [{ name: "item", label: "Item", type: "password", autocomplete: "off", required: true }] });
    if (given) await act("pools/add", { pool, items: [given.item] }, { title: `Add to ${pool}?`, button: "Add" });
  };
  const rest = async ({ pool, name: item }) => {
    const given = await ask({ title: `Let ${item} rest`, text: "No request begins with this item until the time is over.", button: "Continue", fields: [
      { name: "seconds", label: "Seconds (0: end its rest)", type: "number", min: 0, max: 31622400, value: 600, required: true }, { name: "reason", label: "Reason", maxlength: 200 }] });
    if (given) await act("pools/rest", { pool, item, seconds: Number(given.seconds), reason: given.reason }, { title: `Let ${item} rest?`, button: "Rest" });
  };
  const retire = async ({ pool, name: item }) => {
    const given = await ask({ title: `Retire ${item}`, text: "No request begins with this item until it is used again.", button: "Continue", fields: [{ name: "reason", label: "Reason", maxlength: 200 }] });
    if (given) await act("pools/retire", { pool, item, reason: given.reason }, { title: `Retire ${item}?`, button: "Retire", danger: true });
  };
  const again = ({ pool, name: item }) => act("pools/add", { pool, items: [item] }, { title: `Use ${item} again?`, button: "Use again" });
  const remove = ({ pool, name: item }) => act("pools/remove", { pool, items: [item] }, { title: `Remove ${item}?`, button: "Remove", danger: true });
  const button = (label, press, danger = false) => h("button", { class: danger ? "small danger" : "small", onclick: press }, label);
  const buttons = (one) => h("div", { class: "buttons" },
    one.retired ? button("Use again", () => again(one)) : button("Rest", () => rest(one)),
    !one.retired && button("Retire", () => retire(one)),
    button("Remove", () => remove(one), true));
  const soon = (one) => (one.free_in === 0 ? "now" : one.free_in == null ? "–" : duration(Math.max(1, one.free_in)));
  const shown = table([
    { title: "Pool", text: (one) => one.pool },
    { title: "Item", lead: true, mark: (one) => one.name, parts: (one) => theirs(one.name) },
    { title: "State", mark: (one) => one.state, parts: (one) => h("span", { class: `badge ${TONE[one.state] ?? ""}` }, clean(one.state)) },
    { title: "Free in", num: true, text: soon },
    { title: "Why", mark: (one) => [one.retired, one.why], parts: (one) => theirs(one.retired || one.why || "–") },
    { title: "Worker", mark: (one) => one.workers, parts: (one) => theirs(one.workers.join(", ") || "–") },
    { title: "Used", num: true, text: (one) => number(one.used) },
    { title: "Bad in a row", num: true, text: (one) => number(one.bad) },
    ...(about.actions ? [{ title: "", mark: (one) => [one.pool, one.name, Boolean(one.retired)], parts: buttons }] : []),
  ], (one) => `${one.pool} ${one.name}`);
  const counts = h("ul", { class: "plain" }), note = h("p", { class: "note", hidden: true });
  const element = h("section", { class: "card pad pools", "data-name": "pools", hidden: true }, h("h2", {}, "Pools"), counts, shown.element, note);
  const line = ({ name: pool }) => {
    const text = h("span");
    const update = (one) => put(text, clean(`${one.name}: ${counted(one.items, "item")}: ${number(one.free)} free, ${number(one.in_use)} in use, ${number(one.rests)} at rest, ${number(one.waits)} in their delay, ${number(one.retired)} retired `));
    return { element: h("li", {}, text, about.actions && button("Add", () => add(pool))), update };
  };
  let read = 0, reading = false;
  const show = async ({ pools = [] }) => {
    element.hidden = !pools.length;
    keyed(counts, pools, (one) => one.name, line);
    if (!pools.length || reading || Date.now() - read < 2000) return;
    reading = true;
    try {
      const { items, has_more } = await get("pools", { spider: name });
      shown.show(items);
      note.hidden = !has_more;
      put(note, `The first ${number(items.length)} items.`);
    } catch { /* the next picture asks again */ }
    read = Date.now();
    reading = false;
  };
  return { element, show, refresh: () => { read = 0; } };
}

function eventList(name) {
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

/** Return tabs. The selected one is loaded again every two seconds. */
function tabs(all) {
  const bar = h("div", { role: "tablist", "aria-label": "Details" });
  const panels = h("div");
  let shown = null, timer = 0;
  const refresh = async () => {
    clearTimeout(timer);
    const tab = shown;
    if (document.hidden || !tab?.load || !view.isThere) return;
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
    const hidden = tab.button.offsetLeft + tab.button.offsetWidth - bar.offsetLeft - bar.clientWidth;
    if (hidden > bar.scrollLeft || tab.button.offsetLeft - bar.offsetLeft < bar.scrollLeft) bar.scrollLeft = hidden + 12;
    history.replaceState(null, "", `#/s/${encodeURIComponent(view.name)}/${tab.id}`);
    refresh();
  };
  for (const tab of all) {
    tab.button = h("button", { role: "tab", id: `tab-${tab.id}`, "aria-controls": `panel-${tab.id}`, onclick: () => select(tab) }, tab.title, h("span"));
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
  const choose = (id) => select(all.find((tab) => tab.id === id) ?? all[0]);
  return { element: h("section", { class: "card" }, bar, panels), choose, count, refresh };
}

function workersTab(name) {
  let now = 0, offset = 0;
  const PAGE = 50;
  const columns = [
    { title: "Worker", lead: true, text: (w) => named(w.name) },
    { title: "State", mark: (w) => [w.alive, w.told_to_stop, w.place], parts: (w) => h("span", { class: `badge ${w.place ? "calm" : !w.alive ? "bad" : w.told_to_stop ? "warn" : "good"}` }, w.place ? `${w.place} in line` : !w.alive ? "dead" : w.told_to_stop ? "closing" : "alive") },
    { title: "Host", text: (w) => (w.host ? `${w.host} (${w.pid})` : "–") },
    { title: "Pages", num: true, text: (w) => number(w.pages) },
    { title: "In hand", num: true, text: (w) => number(w.in_hand) },
    { title: "Limited by", text: (w) => (w.limit === "none" ? "–" : w.limit) },
    { title: "Joined", text: (w) => (w.joined ? `${duration(now - w.joined)} ago` : "–") },
    { title: "Last heard", text: (w) => (w.heard ? `${duration(now - w.heard)} ago` : "–") },
  ];
  const shown = table(columns, (worker) => worker.name), pages = pager(PAGE, (to) => { offset = to; view.refresh(); });
  const empty = h("p", { class: "empty" }, `No worker is running. Start one: scrapy crawl ${quoted(clean(name))}`);
  const load = async () => {
    const { workers, total } = await get("workers", { spider: name, offset, limit: PAGE });
    shown.show(workers);
    pages.show(offset, total);
    empty.hidden = total > 0;
    shown.element.hidden = !total;
  };
  return { id: "workers", title: "Workers", element: h("div", {}, shown.element, empty, pages.element), load, show: (status) => { now = status.now; } };
}

function pager(page, go) {
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

function slotsTab(name) {
  const WHY = { blocked: "blocked", delay: "its delay", concurrency: "its concurrency", spider: "another spider", unreachable: "its site, which cannot be reached" };
  const block = async (slot) => {
    const said = await ask({ title: `Block ${slot}`, text: "No worker begins a request of this slot until the time is over.", button: "Continue", fields: [{ name: "seconds", label: "Seconds", type: "number", min: 1, max: 2592000, value: 600, required: true }] });
    if (said) await act("slots/block", { slot, seconds: Number(said.seconds) }, { title: `Block ${slot}?`, button: "Block", danger: true });
  };
  const set = async ({ slot, delay, concurrency, max_pages }) => {
    const said = await ask({ title: `Limits of ${slot}`, text: "All workers together keep these limits until the crawl is finished. An empty field changes nothing.", button: "Continue", fields: [
      { name: "delay", label: "Seconds between two requests", type: "number", min: 0, max: 86400, step: "any", value: delay ?? "" },
      { name: "concurrency", label: "Downloads at a time (0: no limit)", type: "number", min: 0, max: 1000000, value: concurrency ?? "" },
      { name: "max_pages", label: "Pages in the crawl (0: no limit)", type: "number", min: 0, max: 9007199254740991, value: max_pages ?? "" }] });
    if (!said) return;
    const body = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== "").map(([key, value]) => [key, Number(value)]));
    await act("slots/set", { slot, ...body }, { title: `Set the limits of ${slot}?`, button: "Set" });
  };
  // Requests with needs are listed apart, but their slot is the same.
  const slotOf = (s) => s.slot.split("|")[0];
  const buttons = (s) => h("div", { class: "buttons" },
    s.blocked_for
      ? h("button", { class: "small", onclick: () => act("slots/unblock", { slot: slotOf(s) }, { confirm: false }) }, "Unblock")
      : h("button", { class: "small", onclick: () => block(slotOf(s)) }, "Block"),
    h("button", { class: "small", onclick: () => set({ ...s, slot: slotOf(s) }) }, "Set"),
    h("button", { class: "small", onclick: () => act("deny", { url: slotOf(s) }, { title: `Deny all requests to ${slotOf(s)}?`, button: "Deny", danger: true }) }, "Deny"),
    s.is_set && h("button", { class: "small", onclick: () => act("slots/reset", { slot: slotOf(s) }, { title: `Reset the limits of ${slotOf(s)}?`, button: "Reset" }) }, "Reset"));
  const columns = [
    { title: "Slot", lead: true, mark: (s) => s.slot, parts: (s) => theirs(named(s.slot)) },
    { title: "Waiting", num: true, text: (s) => number(s.waiting) },
    { title: "Next in", num: true, text: (s) => (s.next_in >= 0.05 ? (s.next_in < 10 ? `${s.next_in.toFixed(1)} s` : duration(s.next_in)) : "now") },
    { title: "Held back by", text: (s) => (WHY[s.why] ?? "–") + (s.why === "blocked" && s.block_reason ? ` (${s.block_reason})` : "") },
    { title: "Delay", num: true, text: (s) => (s.delay == null ? "–" : `${+s.delay.toFixed(2)} s${s.is_learnt ? " (learnt)" : s.crawl_delay && s.delay === s.crawl_delay ? " (robots.txt)" : s.throttle && s.delay === s.throttle ? " (throttled)" : s.is_set ? " (set)" : ""}`) },
    { title: "Pages", num: true, text: (s) => (s.pages == null ? "–" : `${number(s.pages)}${s.max_pages ? ` of ${number(s.max_pages)}` : ""}${s.dropped ? `, ${number(s.dropped)} dropped` : ""}`) },
    { title: "Concurrency", num: true, text: (s) => (s.concurrency ? `${s.active} of ${s.concurrency}` : "–") },
    ...(about.actions ? [{ title: "", mark: (s) => [s.slot, s.blocked_for > 0, s.is_set], parts: buttons }] : []),
  ];
  const shown = table(columns, (slot) => slot.slot);
  const allow = (d) => act("allow", { url: d.text }, { title: `Allow ${d.text} again?`, button: "Allow" });
  const denials = table([
    { title: "Denied host or pattern", lead: true, mark: (d) => d.text, parts: (d) => theirs(d.text) },
    { title: "Since", text: (d) => date(d.since) },
    ...(about.actions ? [{ title: "", mark: (d) => d.text, parts: (d) => h("button", { class: "small", onclick: () => allow(d) }, "Allow") }] : []),
  ], (d) => d.text);
  const note = h("p", { class: "note" }), empty = h("p", { class: "empty" }, "No slot has waiting requests.");
  const load = async () => {
    const { slots, total, looked_at, denied } = await get("slots", { spider: name });
    shown.show(slots);
    denials.show(denied);
    denials.element.hidden = !denied.length;
    empty.hidden = slots.length > 0;
    shown.element.hidden = note.hidden = !slots.length;
    const all = looked_at < total ? `Still reading: ${number(looked_at)} of ${number(total)} slots so far. ` : "";
    put(note, `${all}The blocked slots, and the ${Math.min(50, slots.length)} with the most requests${total > slots.length ? ` of ${number(total)}` : ""}.`);
  };
  return { id: "slots", title: "Slots", element: h("div", {}, note, shown.element, empty, denials.element), load };
}

function failedTab(name) {
  const list = h("div"), note = h("p", { class: "note" }), empty = h("p", { class: "empty" }, "The failed list is empty.");
  const again = (body, title) => act("failed/requeue", body, { title, button: "Try again" });
  const forget = (body, title) => act("failed/forget", body, { title, button: "Forget", danger: true });
  const pair = (body, what, label = "") => about.actions && h("div", { class: "buttons" },
    h("button", { class: "small", onclick: () => again(body, `Try ${what} again?`) }, `Try ${label}again`),
    h("button", { class: "small danger", onclick: () => forget(body, `Forget ${what}?`) }, label ? "Forget all" : "Forget"));
  const entry = (one) => ({ element: h("div", { class: "entry", "data-id": one.id },
    one.url ? link(one.url) : theirs((one.data ?? one.data_hex ?? "").slice(0, 300)),
    h("small", { class: "quiet theirs" }, clean([date(one.time), one.kind, one.worker && `worker ${one.worker}`, one.deaths && counted(one.deaths, "death"), one.slot && `slot ${one.slot}`].filter(Boolean).join(" · "))),
    one.size && h("small", { class: "quiet" }, `A seed of ${number(one.size)} bytes, of which only the beginning was kept`),
    one.entry_size && h("small", { class: "quiet" }, `An entry of ${number(one.entry_size)} bytes, of which only the beginning is shown`),
    one.traceback && h("details", {}, h("summary", {}, "Traceback"), h("pre", { class: "theirs" }, clean(one.traceback))),
    one.history && h("small", { class: "quiet theirs" }, clean(one.history)),
    one.id && pair({ id: one.id }, "this entry")) });
  const group = ({ reason }) => {
    const count = h("b"), latest = h("small", { class: "quiet" }), entries = h("div");
    let found = [], total = 0, mark = "";
    const more = h("button", { class: "small", onclick: () => fill(found.length) }, "More");
    const fill = async (offset) => {
      const page = await get("failed", { spider: name, reason, offset, limit: 20 });
      found = offset ? [...found, ...page.failed] : page.failed;
      total = page.total;
      keyed(entries, found, (one) => `${one.id} ${one.time} ${one.data ?? one.data_hex}`, entry);
      more.hidden = found.length >= total;
    };
    const element = h("details", { class: "group" },
      h("summary", {}, count, theirs(reason), latest),
      h("div", { class: "inside" }, pair({ reason }, "all entries with this reason", "all "), entries, more));
    const refill = () => { if (element.open) fill(0).catch((error) => say(error.message, true)); };
    element.addEventListener("toggle", refill);
    const update = (one) => {
      put(count, number(one.count));
      put(latest, date(one.latest));
      if (mark && mark !== `${one.count} ${one.latest}`) refill();
      mark = `${one.count} ${one.latest}`;
    };
    return { element, update };
  };
  const load = async () => {
    const { counts, total, looked_at, problem } = await get("failed/counts", { spider: name });
    keyed(list, counts, (one) => one.reason, group);
    empty.hidden = total > 0;
    note.hidden = !total;
    put(note, `${looked_at < total ? `The latest ${number(looked_at)} of ${number(total)} entries` : counted(total, "entry").replace("entrys", "entries")}, by reason. ${clean(problem)}`);
  };
  return { id: "failed", title: "Failed", element: h("div", {}, note, list, empty), load };
}

function nextTab(name) {
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

function explainTab(name) {
  const input = h("input", { name: "url", required: true, autocomplete: "off", spellcheck: "false", placeholder: "https://…" });
  const button = h("button", { type: "submit", class: "main" }, "Explain"), result = h("div", { "aria-live": "polite" });
  const where = (place) => `${place.before == null ? "in no order" : `${number(place.before)} before it`}${place.slot ? `, in slot ${place.slot}` : ""}`;
  const facts = (found) => [
    ["Seen", found.seen || found.started ? "yes" : "no"],
    ["Waiting", [...found.waiting, ...found.seeds].map(where).join("; ") || "no"],
    ["In hand", found.leased.map((held) => `${held.worker}${held.alive ? "" : ", which is dead"}`).join("; ") || "no"],
    ["Failed", found.failed.map((one) => `${date(one.time)}: ${one.reason}`).join("; ") || "no"],
    ["History", found.history.join(" ") || "–"],
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

function seedTab(name) {
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
  } }, h("h2", {}, "Forget URLs"), h("label", {}, "URLs to forget, so that they count as not seen, one per line", urls),
    h("label", { class: "inline" }, crawl, "Crawl them again: push them as seeds, too"), h("div", {}, h("button", { class: "danger" }, "Forget URLs")));
  return { id: "seed", title: "Seed", element: h("div", { class: "pair" }, push, forget) };
}

function auditTab(name) {
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

function steering() {
  const STEPS = {
    pause: ["Pause", "Pause the crawl?", false], resume: ["Resume", "", false],
    drain: ["Drain", "Drain the crawl?", false], stop: ["Stop", "Stop the workers?", true],
  };
  const buttons = Object.fromEntries(Object.entries(STEPS).map(([step, [label, title, danger]]) => [step, h("button", {
    class: step === "resume" ? "main" : danger ? "danger" : null, "data-action": step,
    onclick: () => act(step, {}, { title, button: label, danger, confirm: step !== "resume" }),
  }, label)]));
  const show = ({ state }) => {
    const held = state === "paused" || state === "draining";
    buttons.pause.hidden = state === "paused";
    buttons.drain.hidden = state === "draining";
    buttons.resume.hidden = !held;
  };
  return { element: h("div", { class: "buttons" }, ...Object.values(buttons)), show };
}

function spider(name) {
  const state = badge(), since = h("span", { class: "quiet" }), steer = about.actions ? steering() : null;
  const numbers = tiles(), limit = limits(), pools = poolList(name), events = eventList(name);
  const speed = chart("Pages a second", (p) => p.rate, (v) => `${rate(v)} a second`, "");
  const queue = chart("Waiting", (p) => p.waiting, (v) => `${number(v)} waiting`, "second");
  const workers = workersTab(name);
  const details = tabs([workers, slotsTab(name), failedTab(name), nextTab(name), explainTab(name), ...(about.actions ? [seedTab(name)] : []), auditTab(name)]);
  const missing = h("p", { class: "empty", hidden: true });
  const body = h("div", { hidden: true }, numbers.element, h("div", { class: "columns" },
    h("div", {}, h("div", { class: "charts" }, speed.element, queue.element), limit.element, pools.element, details.element), events.element));
  const element = h("div", {}, h("div", { class: "head" }, h("h1", { class: "theirs" }, named(name)), state.element, since, steer?.element), missing, body);
  const show = ({ frontier, redis, known }) => {
    const isNew = frontier && !self.isThere;
    self.isThere = Boolean(frontier);
    missing.hidden = Boolean(frontier) || known !== false;
    body.hidden = !frontier;
    put(missing, clean(redis));
    document.title = frontier ? `${rate(frontier.status.per_second)}/s · ${named(name)} · Frontier` : `${named(name)} · Frontier`;
    if (!frontier) return;
    const { status } = frontier;
    state.show(status.state);
    put(since, status.state_since ? `for ${duration(status.now - status.state_since)}` : "");
    steer?.show(status);
    numbers.show(frontier);
    limit.show(frontier);
    pools.show(status);
    const first = status.history[0]?.[0] ?? status.now;
    const span = Math.min(3600, Math.max(600, Math.ceil((status.now - first) / 600) * 600));
    const points = series(status.history, status.now, span);
    speed.show(points, `${rate(status.per_second)} a second`);
    queue.show(points, `${number(status.waiting)} waiting`);
    workers.show(status);
    details.count("workers", number(frontier.alive));
    details.count("slots", status.slots ? number(status.slots) : "");
    details.count("failed", status.failed ? number(status.failed) : "");
    events.show(frontier);
    if (isNew) details.refresh();
  };
  const self = { element, show, name, isThere: false, choose: details.choose, refresh: () => { pools.refresh(); details.refresh(); } };
  return self;
}

// -- live ------------------------------------------------------------------------------------------------

const POLL = 2000, SILENCE = 20000, RETRY = 30000;
let about = { actions: false, limits: {} }, view = null, source = null, timer = 0, turn = 0, retryAt = 0;

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
  view.show(picture);
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
    picture = await get("status", { spider: view.name });
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
  source = new EventSource(address("stream", { spider: view.name }));
  const watch = () => { clearTimeout(timer); timer = setTimeout(poll, SILENCE); };
  source.onmessage = (event) => { if (isMine()) { watch(); receive(JSON.parse(event.data), "live"); } };
  source.addEventListener("ping", () => { if (isMine()) watch(); });
  source.onerror = () => { if (isMine()) poll(); };
  watch();
}

function go() {
  const [, kind, name, tab] = location.hash.split("/");
  let decoded = null;
  try { decoded = kind === "s" && name ? decodeURIComponent(name) : null; } catch { /* as if there were no name */ }
  if (view && decoded != null && view.name === decoded) { view.choose(tab); return; }
  view = decoded == null ? overview() : spider(decoded);
  $("where").replaceChildren(...(decoded == null ? [] : [h("a", { href: "#/" }, "All spiders"), " / ", theirs(named(decoded), "b")]));
  $("main").replaceChildren(view.element);
  view.choose?.(tab);
  window.scrollTo(0, 0);
  follow();
}

async function start() {
  try {
    about = await get("about");
  } catch (error) {
    shown("bad", "no answer", error.message);
    setTimeout(start, POLL);
    return;
  }
  put($("mode"), about.actions ? "actions allowed" : "read-only");
  $("mode").classList.toggle("warn", about.actions);
  $("logout").hidden = !about.has_session;
  $("logout").addEventListener("click", () => post("logout", {}).then(() => location.reload(), (error) => say(error.message, true)));
  window.addEventListener("hashchange", go);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hang();
    else { follow(); view.refresh?.(); }
  });
  go();
}

start();
