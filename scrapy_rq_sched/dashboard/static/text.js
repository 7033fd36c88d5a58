// Texts: those from Redis without hidden characters; numbers, sizes and times in words.

// Control characters, marks without a shape, separators of lines, and letters that look like nothing.
const NOT_SHOWN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

const LONGEST = 20000, LONGEST_NAME = 500;
const escaped = (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`;

/** Return *text* with escapes for characters that could hide or reverse the text beside it. */
export function clean(text, longest = LONGEST) {
  const whole = String(text ?? "");
  const shown = whole.slice(0, longest).replace(NOT_SHOWN, escaped);
  return whole.length > longest ? `${shown}…` : shown;
}

/** Return a name as one line: two names that differ also look different. */
export const named = (text) => clean(text, LONGEST_NAME).replace(/[\t\n]/g, escaped);

/** Return *text* as one word of a shell command. */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

export const number = (value) => Math.round(value ?? 0).toLocaleString("en-US");
export const rate = (value) => (value >= 100 ? number(value) : (value ?? 0).toFixed(1));
/** Return a rate, with a second digit if it is small. */
export const fineRate = (value) => (value > 0 && value < 1 ? value.toFixed(2) : rate(value));
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Return the HTTP statuses among *counts*, each with its number. */
export const statusList = (counts) => Object.entries(counts).filter(([status]) => /^\d+$/.test(status)).map(([status, count]) => `${status}: ${number(count)}`).join(", ");

/** Return by how many percent a figure has changed. */
export const percent = (change) => `${change > 0 ? "+" : "−"}${number(Math.abs(change))} %`;

export function duration(seconds) {
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(left / length);
    left %= length;
    if (count || parts.length || unit === "s") parts.push([count, unit]);
  }
  return parts.slice(0, 2).filter(([count]) => count).map((part) => part.join(" ")).join(" ") || "0 s";
}

/** Return a time that is left: with tenths of a second below ten seconds. */
export const left = (seconds) => (seconds < 9.95 ? `${seconds.toFixed(1)} s` : duration(seconds));

export function size(bytes) {
  if (bytes == null) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes, unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1000; unit += 1; }
  return `about ${value >= 10 || !unit ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** Return a time of today as a clock shows it, and another one with its date. */
export const clock = (seconds) => {
  if (!seconds) return "–";
  const time = new Date(seconds * 1000);
  return time.toDateString() === new Date().toDateString() ? time.toLocaleTimeString() : minute(seconds);
};
export const minute = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" }) : "–");
export const date = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString() : "–");
