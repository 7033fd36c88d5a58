"""A browser for the tests is installed also while another program installs something."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from . import browser

LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that fails once with each line of the returned file, and then succeeds."""
    monkeypatch.setattr(browser, "AGAIN", 0.0)
    failures = tmp_path / "failures"
    program = tmp_path / "apt-get"
    program.write_text(
        f"#!/bin/sh\nread -r failure < {failures} || exit 0\n"
        f'sed -i 1d {failures}\necho "$failure" >&2\nexit 100\n'
    )
    program.chmod(0o755)
    return failures


def run(apt: Path, *failures: str, patience: float = 60) -> bool:
    apt.write_text("".join(f"{failure}\n" for failure in failures))
    return browser.succeeds([str(apt.with_name("apt-get"))], patience)


def test_an_installation_waits_for_the_lock_of_apt(apt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(apt, LOCKED, LOCKED, LOCKED)
    assert capsys.readouterr().out.count("Another program holds apt's lock") == 1


def test_an_installation_gives_up_when_the_lock_is_held_too_long(apt: Path) -> None:
    assert not run(apt, LOCKED, LOCKED, patience=0)


def test_an_installation_that_fails_for_another_reason_is_not_repeated(
    apt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not run(apt, "E: Unable to locate package chromium", LOCKED)
    assert "Unable to locate package" in capsys.readouterr().err
    assert apt.read_text() == f"{LOCKED}\n"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (
            0,
            "Installing the system package chromium with apt-get, because the tests of the web page need a "
            "browser and this machine has none. This waits up to 600 s for apt's lock.\n",
        ),
        (
            1000,
            "Downloading Chromium for this user with playwright, because the tests of the web page need a "
            "browser and this machine has none.\n",
        ),
    ],
)
def test_an_installation_names_its_package_and_its_reason_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user: int, said: str
) -> None:
    commands: list[list[str]] = []
    output: list[str] = []

    def succeeds(command: list[str]) -> bool:
        commands.append(command)
        output.append(capsys.readouterr().out)
        return True

    monkeypatch.setattr(browser, "find", lambda playwright: None)
    monkeypatch.setattr(browser, "succeeds", succeeds)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    browser.install()
    assert output[0] == said
    assert not any(output[1:])
    assert commands[-1][-1] == "chromium"
