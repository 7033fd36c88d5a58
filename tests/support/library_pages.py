"""The standard library's own pages about itself: HTML that nobody wrote for these tests.

``python -m tests.support.library_pages FOLDER`` writes what :class:`pydoc.HTMLDoc` says of each module there.
It imports them all, and so has a process of its own.
"""

from __future__ import annotations

import importlib
import pydoc
import sys
from pathlib import Path

#: Modules whose import does nothing but define, and whose page is not large; those that this Python does not
#: have are left out.
MODULES = """
abc argparse array asyncio.events asyncio.futures asyncio.locks asyncio.queues asyncio.streams
asyncio.subprocess asyncio.tasks asyncio.transports atexit base64 bdb binascii bisect bz2 cmath cmd code
codeop colorsys compileall concurrent concurrent.futures concurrent.futures.process
concurrent.futures.thread contextlib contextvars copy copyreg csv dataclasses datetime dis email
email.charset email.encoders email.generator email.header email.mime email.parser email.utils encodings
errno filecmp fileinput fnmatch fractions functools gc genericpath getopt getpass gettext glob graphlib gzip
hashlib heapq hmac html html.entities html.parser http.cookiejar http.cookies importlib importlib.abc
importlib.machinery importlib.metadata importlib.resources importlib.util itertools json json.decoder
json.encoder json.scanner keyword linecache locale logging.config lzma marshal math mimetypes modulefinder
netrc ntpath nturl2path numbers opcode operator os.path pickle pickletools pkgutil platform plistlib poplib
posixpath pprint profile pstats py_compile pyclbr pydoc queue quopri random re reprlib rlcompleter runpy
sched secrets select selectors shelve shlex shutil stat statistics string stringprep struct subprocess
symtable sys sysconfig tabnanny tempfile textwrap time timeit token tokenize tomllib trace traceback
tracemalloc unicodedata unittest.loader unittest.result unittest.runner unittest.suite urllib urllib.error
urllib.response urllib.robotparser uuid venv warnings wave webbrowser wsgiref wsgiref.headers wsgiref.util
wsgiref.validate xml xml.etree xml.etree.ElementTree xml.parsers xml.sax xml.sax.handler xml.sax.saxutils
xmlrpc zipapp zipfile zipimport zlib zoneinfo
"""


def write(folder: Path) -> None:
    """Write a page for each module, and one that links to all of them."""
    writer = pydoc.HTMLDoc()
    known = []
    for name in MODULES.split():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        page = writer.page(pydoc.describe(module), writer.document(module, name))
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
        known.append((name, "", hasattr(module, "__path__"), False))
    contents = writer.multicolumn(known, writer.modpkglink)
    (folder / "index.html").write_text(writer.page("Index of Modules", contents), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
