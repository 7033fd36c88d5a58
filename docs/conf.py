"""How the documentation is built: ``make docs``."""

from __future__ import annotations

import os
import re
from importlib.metadata import version as installed_version
from typing import Any

project = "scrapy-rq-sched"
copyright = "the authors of scrapy-rq-sched"
version = release = installed_version(project)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
# The site loads nothing from elsewhere, and shows no source that is not on it.
html_show_sourcelink = False
# A reader copies what they would type: without the prompt, and without what the command prints.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

# Headings have the anchors that they have on a code host, so that one link is right in both places.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"

# What others have written is not looked up: a build needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(scrapy|starlette|twisted|redis|collections|logging|pathlib|typing_extensions)\..*"),
    ("py:.*", r"(Any|Self|Path|NotConfigured|Request|Spider|Crawler|Deferred|BaseSettings|BaseDupeFilter)"),
    ("py:.*", r"(ASGIApp|Authenticate)"),
]

#: What is outside of this folder and has a page in it.
PAGES = {"../CHANGELOG.md": "changes.md"}


def repository_file(path: str) -> str:
    """Return the address of *path* on the code host, or nothing where that is not known."""
    repository = os.environ.get("READTHEDOCS_GIT_CLONE_URL", "").removesuffix(".git")
    commit = os.environ.get("READTHEDOCS_GIT_COMMIT_HASH", "")
    return f"{repository}/blob/{commit}/{path}" if repository.startswith("https://") and commit else ""


def link_outside(match: re.Match[str]) -> str:
    """Return a link for one that leads out of this folder, which a site has nothing of."""
    text, target = match.groups()
    target = PAGES.get(target) or repository_file(target.removeprefix("../"))
    return f"[{text}]({target})" if target else text


def setup(app: Any) -> None:
    """Have links that lead out of this folder go to where they can."""

    def read(app: Any, docname: str, source: list[str]) -> None:
        source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)]+)\)", link_outside, source[0])

    app.connect("source-read", read)
