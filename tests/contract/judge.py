"""The published client as a judge: runs it, unmodified, and says what it made of each answer.

This program runs in the client's own environment, not in ours. It reads one JSON object a line and answers with one
JSON object a line:

    {"operation": "create_cluster", "args": {…}, "api": {"url": …, "token": …}}    a generated operation
    {"make": "Client", "args": {…}, "env": {…}, "keep": "client"}                   an object of the workflows layer
    {"on": "client", "call": "submit", "args": {…}, "keep": "job"}                  a method of a kept object
    {"list": "operations"}                                                          names of the generated operations

The answer is {"type", "value"} (and "status" for an operation), or {"raised", "text", …} for an exception; see
`refusal`. What the client hides is an exception here: it takes a wrong status of the 2xx class silently for None.

The client has each operation twice, to be awaited (as `AsyncClient` does) and to be waited for (as `Client` does). What
only reads is called both ways and has to come to the same; all else takes turns.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import pkgutil
import sys
import typing
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import anycloud_workflows

anycloud: Any = importlib.import_module("anycloud")
api_client: Any = importlib.import_module("anycloud.api_client")
exceptions: Any = importlib.import_module("anycloud.exceptions")

_VERSION_ARGUMENT = "any_cloud_client_version"
_INFO = "_with_http_info"
_UNDECLARED = object()

AWAITED, WAITED_FOR = "", "_sync"
READS = ("get_", "list_", "bucket_exists", "discover_")

loop = asyncio.new_event_loop()
kept: dict[str, Any] = {}
clients: dict[tuple[str, str, str], Any] = {}
turns: Counter[str] = Counter()


class TwoOutcomesError(Exception):
    """The two forms of an operation came to different outcomes, again and again."""


class SilentNoneError(Exception):
    """The client would have handed None to its caller for an answer that ought to have content."""


def watch_for_silence() -> None:
    """Looks at every answer that the client accepts: its status has to be a declared one, with what it declares."""
    accept = api_client.ApiClient.response_deserialize

    def watched(self: Any, response_data: Any, response_types_map: Any = None) -> Any:
        answer = accept(self, response_data, response_types_map)
        declared = response_types_map.get(str(response_data.status), _UNDECLARED)
        if declared is _UNDECLARED:
            raise SilentNoneError(f"status {response_data.status} isn't declared")
        if declared is not None and answer.data is None:
            raise SilentNoneError(f"status {response_data.status} without content, not {declared}")
        if str(declared).startswith("List[") and not response_data.data.lstrip().startswith(b"["):
            raise SilentNoneError(f"no array, which the client reads as an empty one: {response_data.data[:80]!r}")
        if declared is None and response_data.data:
            raise SilentNoneError(f"status {response_data.status} with content: {response_data.data[:80]!r}")
        return answer

    api_client.ApiClient.response_deserialize = watched


def operations() -> dict[str, tuple[type, str]]:
    """Class and name of every generated operation, by name."""
    package = importlib.import_module("anycloud.api")
    found: dict[str, tuple[type, str]] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for kind in vars(importlib.import_module(f"anycloud.api.{module.name}")).values():
            if inspect.isclass(kind) and kind.__name__.endswith("Api"):
                names = [name.removesuffix(_INFO) for name in vars(kind) if name.endswith(_INFO)]
                found |= {name: (kind, name) for name in names if not name.endswith(WAITED_FOR)}
    return found


def call_operation(request: dict[str, Any]) -> dict[str, Any]:
    name, args = request["operation"], request.get("args", {})
    if not name.startswith(READS) or args.get("wait_ms"):
        turns[name] += 1
        return outcome(request, WAITED_FOR if turns[name] % 2 else AWAITED)
    for _ in range(3):  # something may have changed between the two
        first, second = outcome(request, AWAITED), outcome(request, WAITED_FOR)
        if _gist(first) == _gist(second):
            return first
    raise TwoOutcomesError(f"{first} or {second}")


def outcome(request: dict[str, Any], form: str) -> dict[str, Any]:
    """What one form of an operation comes to."""
    kind, operation = OPERATIONS[request["operation"]]
    method = getattr(kind(_client(**request["api"], form=form)), f"{operation}{form}{_INFO}")
    try:
        result = method(**_arguments(method, request.get("args", {})))
        answer = loop.run_until_complete(_awaited(result)) if inspect.isawaitable(result) else result
    except Exception as error:
        return refusal(error)
    return {"status": answer.status_code, **described(answer.data)}


def _gist(told: dict[str, Any]) -> list[Any]:
    return [told.get(key) for key in ("type", "status", "raised", "model")]


def _client(url: str, token: str, form: str) -> Any:
    """One client, with its connections, for each API, caller and event loop."""
    if (url, token, form) not in clients:
        configuration = anycloud.Configuration(host=f"{url}/v1", access_token=token)
        clients[url, token, form] = anycloud.ApiClient(configuration)
    return clients[url, token, form]


def _arguments(method: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Bodies as the client's own models; its version where the operation takes it and nobody says another one."""
    parameters = inspect.signature(method).parameters
    made = {name: _argument(parameters[name].annotation, value) for name, value in given.items()}
    if _VERSION_ARGUMENT in parameters:
        made.setdefault(_VERSION_ARGUMENT, anycloud.__version__)
    return made


def _argument(annotation: Any, value: Any) -> Any:
    if isinstance(value, dict):
        model = next(_models(annotation), None)
        return value if model is None else model.from_dict(value)
    return value


def _models(annotation: Any) -> Iterator[Any]:
    if hasattr(annotation, "from_dict"):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def make(request: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(request.get("env", {}))
    made = getattr(anycloud_workflows, request["make"])(**request.get("args", {}))
    kept[request["keep"]] = made
    return {"type": type(made).__name__, "value": None}


def call_method(request: dict[str, Any]) -> dict[str, Any]:
    result = getattr(kept[request["on"]], request["call"])(**_kept_arguments(request.get("args", {})))
    if inspect.isawaitable(result):
        result = loop.run_until_complete(_awaited(result))
    if "keep" in request:
        kept[request["keep"]] = result
    return described(result)


async def _awaited(result: Any) -> Any:
    return await result


def _kept_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """{"$kept": name} stands for the object that was kept under this name."""
    return {
        name: kept[value["$kept"]] if isinstance(value, dict) and "$kept" in value else value
        for name, value in given.items()
    }


def described(result: Any) -> dict[str, Any]:
    """Type and content of what the client made of an answer."""
    return {"type": type(result).__name__, "value": _value(result)}


def _value(result: Any) -> Any:
    if isinstance(result, list):
        return [_value(item) for item in result]
    if isinstance(result, anycloud_workflows.CurrentJob):
        return _value(result.selected)
    if isinstance(result, anycloud_workflows.Job | anycloud_workflows.AsyncJob):
        return {
            "id": result.id,
            "submission": _value(result.submission),
            "revision": result._submission_revision,
            "state": None if result.last_status is None else _text(result.last_status.workload.state),
        }
    if hasattr(result, "to_dict"):
        return result.to_dict()
    return result


def refusal(error: BaseException) -> dict[str, Any]:
    """An exception. For an error answer of the API with its status, and, if the client could read the body, with the
    model that it read and its content."""
    told: dict[str, Any] = {"raised": type(error).__name__, "text": str(error)[:2000]}
    if isinstance(error, exceptions.ApiException):
        told |= {"status": error.status, "model": None, "error": None}
        actual = getattr(error.data, "actual_instance", None)
        if actual is not None:
            told |= {"model": type(actual).__name__, "error": actual.to_dict()}
    if isinstance(error, anycloud_workflows.JobFailedError):
        told["state"] = _text(error.state)
    job = getattr(error, "job", None)
    if job is not None:
        told["job"] = _value(job)
    cause = getattr(error, "cause", None)
    if cause is not None:
        told["cause"] = refusal(cause)
    return told


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        if "list" in request:
            return described(sorted(OPERATIONS))
        if "operation" in request:
            return call_operation(request)
        return make(request) if "make" in request else call_method(request)
    except Exception as error:
        return refusal(error)


def plain(value: Any) -> Any:
    """What JSON has no form for, as text."""
    if isinstance(value, uuid.UUID | datetime):
        return str(value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return _text(value)


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line)), default=plain), flush=True)


watch_for_silence()
OPERATIONS = operations()

if __name__ == "__main__":
    main()
