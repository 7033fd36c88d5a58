// The page of the login. It is shown instead of the dashboard to a browser without a session.

const $ = (id) => document.getElementById(id);

/** Return the address of a request. The address of the page may contain a password, which fetch refuses. */
function address(path) {
  const url = new URL(path, document.baseURI);
  url.username = url.password = url.search = url.hash = "";
  return url;
}

/** Leave for the dashboard, at the tab that was asked for. */
function enter() {
  const page = address("./");
  page.hash = location.hash;
  if (page.href === location.href || page.hash) location.reload();
  else location.replace(page);
}

async function logIn(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  $("said").textContent = "";
  try {
    const response = await fetch(address("api/v1/login"), {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ password: $("password").value }),
    });
    // A browser that blocks cookies, or shows another path than the cookie's, is not logged in.
    const isIn = response.ok && (await fetch(address("api/v1/about"))).ok;
    if (isIn) { enter(); return; }
    $("said").textContent = response.ok
      ? "The password is right, but the browser did not keep the login. Allow cookies, and open the page at the address that the command has printed, with the path of --root-path"
      : (await response.json()).error;
  } catch {
    $("said").textContent = "The dashboard does not answer. Check that its process still runs";
  }
  button.disabled = false;
  $("password").select();
}

$("login")?.addEventListener("submit", logIn);

// A link on another site leads here without the cookie, though there may be a session.
const [arrival] = performance.getEntriesByType("navigation");
if (arrival?.type !== "reload") {
  fetch(address("api/v1/about")).then((response) => { if (response.ok) enter(); }).catch(() => {});
}
