"""A worker and the commands do not show the password in an address with a mistake."""

from __future__ import annotations

import pytest

from ..support.crawl import Fleet, run_python
from ..unit.test_addresses import SECRET

pytestmark = pytest.mark.single("its address")

FORMS = {
    "quotes": f'"redis://user:{SECRET}@127.0.0.1:1/0"',
    "space": f" redis://user:{SECRET}@127.0.0.1:1/0",
    "line break": f"\nredis://:{SECRET}@127.0.0.1:1/0",
    "no scheme": f"//user:{SECRET}@127.0.0.1:1/0",
    "twice": f"redis://redis://user:{SECRET}@127.0.0.1:1/0",
    "no colon": f"redis://{SECRET}@127.0.0.1:1/0",
    "escaped": f"redis://user%3A{SECRET}%40127.0.0.1:1/0",
    "option": f"redis://127.0.0.1:1/0?passwort={SECRET}",
    "socket": f"unix:///run/no.sock&password={SECRET}",
}


@pytest.fixture(params=FORMS)
def url(request: pytest.FixtureRequest) -> str:
    return FORMS[request.param]


def test_the_log_of_a_worker_has_no_password_of_an_odd_address(fleet: Fleet, url: str) -> None:
    fleet.start("graph", REDIS_URL=url, FRONTIER_JOIN_TIMEOUT=0, LOG_LEVEL="DEBUG")
    fleet.wait(timeout=60)
    assert "The crawl cannot start: " in fleet.log()
    assert SECRET not in fleet.log()
    assert "Traceback" not in fleet.log()


@pytest.mark.parametrize("command", ["status", "doctor", "events", "seed"])
def test_the_output_of_a_command_has_no_password_of_an_odd_address(url: str, command: str) -> None:
    more = ["http://graph.test/1"] if command == "seed" else []
    done = run_python("-m", "scrapy", "frontier", command, "graph", *more, redis_url=url)
    assert done.returncode
    assert "REDIS_" in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
