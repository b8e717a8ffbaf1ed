"""The golden HTTP exchanges in `exchanges/`, replayed. `wire.py` says how to read them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from tests.contract import wire
from tests.contract.operations import OPERATIONS, Operation
from tests.contract.world import SIGN_IN, VERSION, Api, World, connection

HERE = Path(__file__).parent / "exchanges"
SCENARIOS: dict[str, dict[str, Any]] = {
    f"{file.stem}: {scenario['rule']}": scenario
    for file in sorted(HERE.glob("*.yaml"))
    for scenario in yaml.safe_load(file.read_text(encoding="utf-8"))
}
RULES = [
    pytest.param(rule, id=rule, marks=[pytest.mark.req(*scenario["rows"])] if "rows" in scenario else [])
    for rule, scenario in SCENARIOS.items()
]


@pytest.fixture
def values(
    world: World, served: dict[str, Any], parked: dict[str, Any], unique: Callable[[str], str]
) -> dict[str, Any]:
    """What the exchanges may name with a dollar."""
    execution = uuid4()
    return {
        "execution": str(execution),
        "spelled": execution.hex.upper(),  # another spelling of the same id
        "next": str(uuid4()),
        "cluster": world.cluster["id"],
        "pool": world.pool["id"],
        "served": served["id"],
        "parked": parked["id"],
        "hosted_url": world.hosted.url,
        "new": unique("new"),
        "version": VERSION,
        "api_image": world.cluster["apiImage"],
        "image": world.register_image("contract/golden:1"),
    }


@pytest.fixture
def callers(world: World, served: dict[str, Any], parked: dict[str, Any]) -> dict[str, Callable[[], Api]]:
    return {
        "owner": lambda: world.hosted,
        "installer": lambda: world.local,
        "container": lambda: world.worker(served),
        "other container": lambda: world.worker(parked),
        "github": lambda: Api(world.hosted.url, SIGN_IN),
    }


@pytest.mark.parametrize("rule", RULES)
def test_exchange(rule: str, values: dict[str, Any], callers: dict[str, Callable[[], Api]]) -> None:
    for step in SCENARIOS[rule]["steps"]:
        replay(step, values, callers[step.get("as", "owner")]())


def replay(step: dict[str, Any], values: dict[str, Any], api: Api) -> None:
    """Sends one step until the answer fits: once, unless the step gives it some seconds."""
    end = time.monotonic() + step.get("within", 0)
    while True:
        answer = send(step, values, api)
        try:
            compare(step, values, answer)
        except AssertionError as wrong:
            if time.monotonic() > end:
                raise AssertionError(f"{step['call']}: {wrong}\n{answer.status_code} {answer.text}") from None
            time.sleep(0.1)
        else:
            break
    for name, place in step.get("keep", {}).items():
        values[name] = found_at(answer.json(), place)


def send(step: dict[str, Any], values: dict[str, Any], api: Api) -> httpx.Response:
    method, _, path = wire.filled(step["call"], values).partition(" ")
    given = {**api.headers, **{name: str(wire.filled(text, values)) for name, text in step.get("headers", {}).items()}}
    headers = {name: text for name, text in given.items() if name not in step.get("without", [])}
    with connection(headers) as client:
        if "body" in step:
            return client.request(method, f"{api.url}/v1{path}", json=wire.filled(step["body"], values))
        return client.request(method, f"{api.url}/v1{path}")


def compare(step: dict[str, Any], values: dict[str, Any], answer: httpx.Response) -> None:
    wire.check_form(answer)
    assert answer.status_code == step["status"], f"status {answer.status_code}, not {step['status']}"
    for name, text in step.get("answered", {}).items():
        wire.check(wire.filled(text, values), answer.headers.get(name), f"header {name}")
    if step.get("refused"):
        expected = wire.error(
            step["refused"],
            step["status"],
            step.get("says", "<string>"),
            defined=step.get("defined", True),
            data=step.get("data"),
        )
    elif "answer" in step:
        expected = step["answer"]
    else:
        assert not answer.content, "content where none is expected"
        return
    wire.check(wire.filled(expected, values), answer.json())


def found_at(answer: Any, place: str) -> Any:
    """`a.0.b` is the value below these keys and indices."""
    for key in place.split("."):
        answer = answer[int(key)] if isinstance(answer, list) else answer[key]
    return answer


def of(call: str) -> Operation | None:
    """The operation that a step calls."""
    verb, _, rest = call.partition(" ")
    parts = rest.partition("?")[0].split("/")
    for one in OPERATIONS:
        wanted = one.path.split("/")
        same = len(parts) == len(wanted) and all(
            theirs == ours or ours.startswith("{") for theirs, ours in zip(parts, wanted, strict=True)
        )
        if same and one.verb == verb:
            return one
    return None


def covered(of_status: Callable[[int], bool]) -> Iterator[str]:
    for step in itertools.chain.from_iterable(scenario["steps"] for scenario in SCENARIOS.values()):
        operation = of(step["call"])
        if operation is not None and of_status(step["status"]):
            yield operation.name


def test_every_operation_has_a_success_and_a_refusal_among_the_exchanges() -> None:
    never_succeed = {
        "upgrade_service",  # there are no services
        "destroy_cluster",  # loses the world of all other tests; see test_lost_cluster.py
        "forget_cluster",
        "get_workload_ssh_access",  # not available, as are these families
        "list_buckets",
        "bucket_exists",
        "create_bucket",
        "delete_bucket",
        "list_bucket_objects",
        "delete_bucket_object",
        "get_quota_status",
        "save_notification_channel",
        "test_notification_channel",
        "set_budget",
        "set_throttle",
        "create_cluster",  # see test_lost_cluster.py
    }
    every = {one.name for one in OPERATIONS}
    assert set(covered(lambda status: status < 400)) == every - never_succeed
    assert every - set(covered(lambda status: status >= 400)) == set()
