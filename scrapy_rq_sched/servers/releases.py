"""Which releases of Redis and Valkey have the known security fixes, and which program is the newest."""

from __future__ import annotations

import re
import subprocess
from functools import cache

#: The month of the newest security fixes that are known here.
FIXES_OF = "July 2026"
#: The first release of each line that has them, in ascending order. A line that is not named gets no fixes.
#: Redis, 24 July 2026: "serious vulnerabilities that may result in remote code execution", in all lines from
#: 6 to 8 (github.com/docker-library/official-images/pull/21922). Valkey, 21 July 2026: CVE-2026-56684 and
#: CVE-2026-63639 (github.com/valkey-io/valkey/releases).
FIRST_WITH_FIXES = {
    "Redis": ("6.2.23", "7.2.15", "7.4.10", "8.2.8", "8.4.5", "8.6.5", "8.8.1"),
    "Valkey": ("7.2.14", "8.0.10", "8.1.9", "9.0.5", "9.1.1"),
}

#: Seconds within which a program must name its version.
TIMEOUT = 10.0


def needed_update(kind: str, version: str) -> str:
    """Return the oldest release to update to; empty if *version* has the known security fixes.

    :param kind: ``Redis`` or ``Valkey``.
    """
    own = _numbers(version)
    for release in FIRST_WITH_FIXES.get(kind, ()):
        first = _numbers(release)
        if own[:2] <= first[:2]:
            return release if own < first else ""
    return ""


@cache
def version_of(executable: str) -> tuple[int, ...]:
    """Return the version of a ``redis-server`` or ``valkey-server``; empty if the program does not say it."""
    try:
        done = subprocess.run(  # noqa: S603 - a server that is installed here
            [executable, "--version"], capture_output=True, text=True, timeout=TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(r"\bv=([\d.]+)", done.stdout)
    return _numbers(found[1]) if found else ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
