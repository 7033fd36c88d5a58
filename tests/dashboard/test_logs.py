"""The logs of workers: only files below the folder that the operator has named."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from scrapy_rq_sched.dashboard.logs import FOUND_LINES, LONGEST_LINE, MOST_BYTES, MOST_LINES, Logs
from scrapy_rq_sched.inspect import Worker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("a secret\n")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "1.log").write_text("one\ntwo\n")
    (logs / "link.log").symlink_to(tmp_path / "secret")
    (logs / "loop.log").symlink_to(logs / "loop.log")
    (logs / "folder.log").mkdir()
    os.mkfifo(logs / "pipe.log")
    return logs


def worker(path: Path | str, host: str = "") -> Worker:
    return Worker("w", True, host=host or socket.gethostname(), log=str(path))


def test_the_last_lines_of_a_log_are_read(folder: Path) -> None:
    assert Logs(str(folder)).tail(worker(folder / "1.log")) == {"lines": ["one", "two"], "problem": ""}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../secret", "not below"),
        ("link.log", "not below"),
        ("/etc/passwd", "not below"),
        ("folder.log", "cannot be read"),
        ("pipe.log", "cannot be read"),
        ("loop.log", "cannot be read"),
        ("gone.log", "cannot be read"),
        ("1.log\x00", "cannot be read"),
    ],
)
def test_nothing_but_a_file_below_the_folder_is_read(folder: Path, name: str, problem: str) -> None:
    found = Logs(str(folder)).tail(worker(f"{folder}/{name}" if not name.startswith("/") else name))
    assert found["lines"] == []
    assert problem in found["problem"]


def test_the_lines_with_a_text_are_found_in_a_long_log(folder: Path) -> None:
    lines = [f"{number} {'Ignoring' if number % 1000 == 7 else 'other'}" for number in range(5000)]
    (folder / "long.log").write_text("\n".join(lines))
    found = Logs(str(folder)).tail(worker(folder / "long.log"), "ignoring")
    assert found["lines"] == [f"{number} Ignoring" for number in (7, 1007, 2007, 3007, 4007)]
    assert found["found"] == 5
    every = Logs(str(folder)).tail(worker(folder / "long.log"), "other")
    assert (len(every["lines"]), every["found"]) == (FOUND_LINES, 4995)
    assert Logs(str(folder)).tail(worker(folder / "long.log"), "nowhere")["found"] == 0


def test_no_log_is_read_without_a_folder_or_for_another_host(folder: Path) -> None:
    path = folder / "1.log"
    assert "--logs" in Logs(None).tail(worker(path))["problem"]
    assert "another host" in Logs(str(folder)).tail(worker(path, "elsewhere"))["problem"]
    assert "no log file" in Logs(str(folder)).tail(worker(""))["problem"]


def test_of_a_long_log_only_the_end_is_read(folder: Path) -> None:
    path = folder / "1.log"
    path.write_text("x" * MOST_BYTES + "\n" + "y" * 2000 + "\n" + "".join(f"{n}\n" for n in range(30)))
    lines = Logs(str(folder)).tail(worker(path))["lines"]
    assert (lines[-1], len(lines[0]), len(lines)) == ("29", LONGEST_LINE, 31)
    path.write_text("".join(f"{n}\n" for n in range(9000)))
    assert len(Logs(str(folder)).tail(worker(path))["lines"]) == MOST_LINES
