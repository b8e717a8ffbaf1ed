"""`anycloud login`, against the sandbox's GitHub; a person who reads what the terminal says enters the code there."""

from __future__ import annotations

import asyncio
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import web
from anycloud_cli import supervisor
from anycloud_sandbox.world.github import DeviceFlow

Person = Callable[[str], None]


class GitHub:
    """The sandbox's device flow, and `/user` beside it, on a port of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._runner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.add_routes(DeviceFlow(delay=1).routes())
        app.router.add_get("/github/user", self._user)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    async def _user(self, request: web.Request) -> web.Response:
        found = re.fullmatch(r"Bearer ghs_sandbox_(\w+)", request.headers["Authorization"])
        assert found
        return web.json_response({"id": 7, "login": found[1]})

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def github() -> Iterator[GitHub]:
    made = GitHub()
    yield made
    made.close()


@pytest.fixture
def signing_in(github: GitHub, cli: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Installation in the sandbox. What the person read so far; `said` grows when the program sleeps."""
    monkeypatch.setattr(supervisor, "state", lambda _: {"sandbox": True, "alive": True, "sandboxUrl": github.url})
    said: list[str] = []
    return said


def person(cli: Any, capsys: Any, said: list[str], *, answer: str, login: str = "ada", after: int = 1) -> None:
    """Enters the code that the terminal shows, at the page it names, in the program's `after`-th pause."""

    def act() -> None:
        said.append(capsys.readouterr().err)
        if len(cli.clock.sleeps) != after:
            return
        found = re.search(r"Open (\S+) and enter the code ([A-Z]{4}-[A-Z]{4})", "".join(said))
        assert found
        form = urlencode({"user_code": found[2].lower(), "login": login, "answer": answer}).encode()
        urllib.request.urlopen(found[1], form, timeout=10).read()

    cli.clock.on_sleep = act


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_code_that_is_approved_signs_in(cli: Any, capsys: Any, signing_in: list[str]) -> None:
    person(cli, capsys, signing_in, answer="yes", after=3)
    run = cli("login")
    assert run == (0, "Signed in as ada.\n", "")
    assert "for 15 minutes at most" in "".join(signing_in)
    token = cli.directory / ".token"
    assert token.read_text() == "ghs_sandbox_ada\n"
    assert mode(token) == 0o600
    assert cli.clock.sleeps == [1.0, 1.0, 1.0]


def test_json_is_the_only_thing_on_stdout_and_has_no_token(cli: Any, capsys: Any, signing_in: list[str]) -> None:
    person(cli, capsys, signing_in, answer="yes")
    run = cli("login", "--json")
    assert run.json == {"login": "ada", "file": str(cli.directory / ".token")}


def test_a_code_that_is_refused_changes_nothing(cli: Any, capsys: Any, signing_in: list[str]) -> None:
    cli.write(".token", "ghs_before")
    person(cli, capsys, signing_in, answer="no")
    assert cli("login") == (1, "", "The sign-in was refused at GitHub; nothing was changed.\n")
    assert (cli.directory / ".token").read_text() == "ghs_before"


def test_a_code_that_nobody_enters_ends(cli: Any, signing_in: list[str]) -> None:
    run = cli("login")
    assert run.code == 1
    assert run.err.endswith("The code was not used in time; run `anycloud login` again.\n")
    assert 899 <= cli.clock.elapsed <= 900


def test_a_wrong_code_on_the_page_approves_nothing(github: GitHub) -> None:
    form = urlencode({"user_code": "BBBB-BBBB", "login": "ada", "answer": "yes"}).encode()
    page = urllib.request.urlopen(f"{github.url}/github/login/device", form, timeout=10).read().decode()
    assert "No program waits with that code" in page


def test_the_url_of_a_hosted_api_gets_a_token_of_that_api(cli: Any, hosted: Any, capsys: Any, signing_in: Any) -> None:
    hosted.on("POST", "/api-token", {"token": "acapi_new"})
    person(cli, capsys, signing_in, answer="yes")
    run = cli("login", hosted.url + "/")
    assert run == (0, f"A token of {hosted.url} is stored; `anycloud api use {hosted.url}` goes there.\n", "")
    assert "acapi_new" in (cli.directory / "api-tokens.json").read_text()
    assert [asked.headers["authorization"] for asked in hosted.asked("POST", "/api-token")] == [
        "Bearer ghs_sandbox_ada"
    ]
    assert not (cli.directory / "api-url").read_text().startswith(hosted.url)


def test_a_sign_in_that_is_here_is_used_without_a_code(cli: Any, hosted: Any) -> None:
    cli.write(".token", "ghp_me")
    hosted.on("POST", "/api-token", {"token": "acapi_new"})
    assert cli("login", hosted.url).code == 0
    assert cli.clock.sleeps == []


def test_the_local_api_needs_no_token_of_that_kind(cli: Any, api: Any) -> None:
    run = cli("login", api.url)
    assert run == (1, "", f"{api.url} is the local API, which needs no sign-in of its own; run `anycloud login`.\n")


def test_without_an_app_at_github_the_other_ways_are_named(cli: Any) -> None:
    run = cli("login")
    assert run.code == 1
    assert "ANYCLOUD_GITHUB_CLIENT_ID" in run.err
    assert "GITHUB_TOKEN" in run.err


def test_logout_forgets_every_token_of_this_machine(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write(".token", "ghp_me")
    cli.write("api-tokens.json", "{}")
    run = cli("logout", "--json")
    assert run.json == {"removed": [".token", "api-tokens.json"]}
    assert {path.name for path in cli.directory.iterdir()} == {"api-url", "local-api-token"}
    assert cli("logout").out == "Nobody was signed in.\n"
