"""The site of the documentation in a real browser: nothing runs out of a page, wide or narrow.

``SCREENSHOTS=folder pytest tests/docs/test_site.py`` keeps a picture of each page, to be looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ..dashboard.browser import chromium
from ..support.pages import DOCS, ROOT

PAGES = sorted(str(page.relative_to(DOCS).with_suffix(".html")) for page in DOCS.rglob("*.md"))
#: In pixels, with the most columns of a table that must be seen as a whole. A table of numbers that has more
#: of them scrolls by itself on a phone.
COLUMNS = {1280: 20, 400: 4}

MEASURE = """columns => {
  const width = document.documentElement.clientWidth, wrong = [];
  const name = element => `${element.tagName} ${element.innerText.trim().slice(0, 60)}`;
  if (document.documentElement.scrollWidth > width) wrong.push("the page scrolls sideways");
  for (const table of document.querySelectorAll("article table")) {
    const box = table.closest(".table-wrapper");
    if (box === null) wrong.push(`no box of its own: ${name(table)}`);
    else if (box.getBoundingClientRect().right > width + 1) wrong.push(`out of the page: ${name(table)}`);
    else if (table.rows[0].cells.length <= columns && table.scrollWidth > box.clientWidth + 1)
      wrong.push(`cut off: ${name(table)}`);
  }
  for (const code of document.querySelectorAll("article pre, article img, article svg"))
    if (code.getBoundingClientRect().right > width + 1) wrong.push(`out of the page: ${name(code)}`);
  for (const code of document.querySelectorAll("article pre"))
    if (code.scrollWidth > code.clientWidth + 1 && getComputedStyle(code).overflowX !== "auto")
      wrong.push(`no scroll bar: ${name(code)}`);
  return wrong;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as ``make docs`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", DOCS, folder], check=True, cwd=ROOT)
    return folder


@pytest.mark.parametrize("width", COLUMNS)
def test_nothing_runs_out_of_a_page(width: int, site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    wrong = []
    for name in PAGES:
        page.goto((site / name).as_uri())
        wrong += [f"{name}: {one}" for one in page.evaluate(MEASURE, COLUMNS[width])]
    page.close()
    assert not wrong


def test_the_site_asks_no_other_server_for_anything(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index.html", "quickstart.html", "dashboard.html"):
        page.goto((site / name).as_uri())
    page.close()
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]


@pytest.mark.skipif(
    "SCREENSHOTS" not in os.environ, reason="no pictures are wanted: SCREENSHOTS=folder makes them"
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", COLUMNS)
def test_each_page_is_pictured(scheme: str, width: int, site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    for name in PAGES:
        page.goto((site / name).as_uri())
        picture = f"{name.removesuffix('.html').replace('/', '-')}-{width}-{scheme}.png"
        page.screenshot(path=Path(os.environ["SCREENSHOTS"]) / picture, full_page=True)
    page.close()
