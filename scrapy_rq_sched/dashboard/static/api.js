// The JSON API at api/v1/, relative to the page.

import { page } from "./page.js";

export const address = (path, query = {}) => {
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
  if (response.status === 401 && page.about.has_session) location.reload();
  if (!response.ok) throw Object.assign(new Error(said.error || `The dashboard answered with status ${response.status}`), { status: response.status });
  return said;
}

export const get = (path, query) => answered(fetch(address(path, query), { cache: "no-store" }));
export const post = (path, body) => answered(fetch(address(path), {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
}));
