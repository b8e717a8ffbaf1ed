"""On a pseudo-terminal: what is asked, what isn't, and what only a terminal gets."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anycloud_catalog
import pytest

PATIENCE = 20.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`anycloud` at a terminal of its own."""

    def __init__(self, directory: Path, words: tuple[str, ...]) -> None:
        self._master, slave = pty.openpty()
        env = {**os.environ, "ANYCLOUD_DIR": str(directory), "TERM": "xterm", "COLUMNS": "200"}
        command = [sys.executable, "-m", "anycloud_cli", *words]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        self.seen = ""

    def expect(self, text: str) -> None:
        """Reads until the text is there."""
        deadline = time.monotonic() + PATIENCE
        while text not in CONTROL.sub("", self.seen):
            assert self._read(deadline), f"no {text!r} in {self.seen!r}"

    def type(self, text: str) -> None:
        os.write(self._master, f"{text}\n".encode())

    def rest(self) -> int:
        """Reads to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def interrupt(self) -> int:
        """Interrupts until it ends: Python's readline overlooks a signal that comes just before it waits for keys."""
        while True:
            self.process.send_signal(signal.SIGINT)
            try:
                return self.process.wait(3)
            except subprocess.TimeoutExpired:
                continue

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux tells that the other side is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(cli: Any, api: Any, things: Any) -> Iterator[Any]:
    saved = [{"name": "aws-prod", "cloudProvider": "AWS"}, {"name": "lambda", "cloudProvider": "Lambda"}]
    api.on("GET", "/credentials", saved)
    api.on("POST", "/clusters", {"cluster": things.cluster(state="provisioning")}, status=202)
    opened: list[Terminal] = []

    def run(*words: str) -> Terminal:
        opened.append(Terminal(cli.directory, words))
        return opened[-1]

    yield run
    for made in opened:
        made.close()


def _rare() -> tuple[str, tuple[str, ...]]:
    """A CPU type that not every region has, with its regions."""
    everywhere = len(anycloud_catalog.regions("AWS"))
    types = (kind for kind in anycloud_catalog.vm_types("AWS") if kind.arch == "x86_64" and not kind.gpus)
    kind = next((kind for kind in types if 0 < len(kind.regions) < everywhere), None)
    return (kind.name, kind.regions) if kind else ("t3.large", anycloud_catalog.regions_with("AWS", "t3.large"))


ANSWERS = {
    "--credentials": ("Credential", "aws-prod"),
    "--vm-type": ("VM type", "t3.large"),
    "--region": ("Region", "us-east-1"),
}


@pytest.mark.req("CL-005")
@pytest.mark.parametrize(
    "given", [(), ("--credentials",), ("--vm-type", "--region"), ("--credentials", "--region"), tuple(ANSWERS)]
)
def test_in_a_terminal_create_asks_for_what_was_left_out_and_for_nothing_else(
    terminal: Any, api: Any, given: tuple[str, ...]
) -> None:
    words = [word for flag in given for word in (flag, ANSWERS[flag][1])]
    run = terminal("cluster", "create", "prod", *words)
    for flag, (prompt, answer) in ANSWERS.items():
        if flag not in given:
            run.expect(f"\n{prompt}: " if flag != "--credentials" else f"{prompt}: ")
            run.type(answer)
    assert run.rest() == 0
    for flag, (prompt, _) in ANSWERS.items():
        assert (f"{prompt}:" in run.seen) == (flag not in given)
    (made,) = api.asked("POST", "/clusters")
    assert made.body == {
        "name": "prod", "credentialName": "aws-prod", "region": "us-east-1", "vmType": "t3.large",
    }  # fmt: skip


@pytest.mark.req("CL-006")
def test_only_regions_that_have_the_vm_type_are_offered_and_accepted(terminal: Any, api: Any) -> None:
    name, regions = _rare()
    run = terminal("cluster", "create", "prod", "--credentials", "aws-prod", "--vm-type", name)
    run.expect("\r\nRegion: ")
    offered = run.seen.splitlines()[0].removeprefix("Region: ").split(", ")
    assert offered == list(regions)
    run.type("mars-1")
    run.expect("is not one of")
    run.type(regions[0])
    assert run.rest() == 0
    assert api.asked("POST", "/clusters")[0].body["region"] == regions[0]


@pytest.mark.req("CL-009")
def test_with_json_nothing_is_asked_at_a_terminal_either(terminal: Any, api: Any) -> None:
    run = terminal("cluster", "create", "prod", "--json")
    assert run.rest() == 2
    assert run.seen.startswith("Missing --credentials, --vm-type and --region.")
    assert api.requests == []


def test_an_interrupt_at_a_question_ends_with_130_and_no_cluster(terminal: Any, api: Any) -> None:
    run = terminal("cluster", "create", "prod")
    run.expect("Credential: ")
    assert run.interrupt() == 130
    assert api.asked("POST", "/clusters") == []


def test_secret_parts_of_a_credential_are_asked_for_and_not_echoed(
    terminal: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    api.on("PUT", "/credentials/mine", None, status=204)
    run = terminal("credentials", "new", "mine", "--provider", "aws")
    run.expect("Access key ID: ")
    run.type("AKIA")
    run.expect("Secret access key: ")
    run.type("marker")
    assert run.rest() == 0
    assert "marker" not in run.seen
    assert api.asked("PUT", "/credentials/mine")[0].body["secretAccessKey"] == "marker"


@pytest.mark.req("CLI-010")
def test_colour_is_for_terminals_only(terminal: Any, cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/clusters/prod", {"cluster": things.cluster()})
    run = terminal("cluster", "status", "prod")
    assert run.rest() == 0
    assert "\x1b[" in run.seen
    plain = cli("cluster", "status", "prod").out
    assert "\x1b" not in plain
    shown = CONTROL.sub("", run.seen).replace("\r\n", "\n")
    age = re.compile(r"Age: +\w+")
    assert age.sub("", shown) == age.sub("", plain)


def test_a_watch_refreshes_in_place(terminal: Any, api: Any, things: Any) -> None:
    api.on("GET", "/clusters/prod", {"cluster": things.cluster(state="starting")}, {"cluster": things.cluster()})
    run = terminal("cluster", "status", "prod", "--watch", "--interval", "1")
    assert run.rest() == 0
    assert "\x1b[" in run.seen
    assert "⚡  running" in CONTROL.sub("", run.seen)
