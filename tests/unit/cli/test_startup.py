"""`anycloud --help` starts like a shell tool, because it loads like one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "aiohttp", "anycloud_catalog", "anycloud_common", "anycloudapi", "asyncio", "asyncssh", "google", "grpc",
    "http.client", "json", "kubernetes", "rich", "sqlalchemy", "ssl", "subprocess", "yaml",
)  # fmt: skip
ROOT = Path(__file__).parents[3]


def _modules(*words: str) -> set[str]:
    program = (
        "import sys; from anycloud_cli.__main__ import main; code = main(sys.argv[1:]);"
        "print('MODULES', *sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True, env={**os.environ}
    )
    return set(done.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    loaded = _modules(*words)
    assert not loaded & set(HEAVY)
    assert not any(name.startswith("anycloud_cli.commands") for name in loaded)


@pytest.mark.parametrize("group", ["api", "cluster", "node-pool", "deployment", "job", "wait", "logs", "secrets", "db"])
def test_no_command_loads_clouds_grpc_or_kubernetes(group: str) -> None:
    assert not _modules(group, "--help") & {"aiohttp", "asyncssh", "google", "grpc", "kubernetes", "rich", "sqlalchemy"}


def test_help_lists_every_command_that_works_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-m", "anycloud_cli", "--help"], capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([a-z-]+)  ", done.stdout.partition("Commands:")[2], re.MULTILINE)
    assert listed == [
        "api", "login", "logout", "credentials", "cluster", "node-pool", "deployment", "job", "status", "wait", "logs",
        "terminate", "resubmit", "secrets", "db",
    ]  # fmt: skip


def test_the_version_is_that_of_the_distribution() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anycloud_cli", "--version"], capture_output=True, text=True, check=True
    )
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert done.stdout == f"anycloud {version[1]}\n"


def test_a_reader_that_has_seen_enough_ends_the_command_quietly() -> None:
    command = f"{sys.executable} -m anycloud_cli deployment create --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "")
    assert done.stderr == ""
