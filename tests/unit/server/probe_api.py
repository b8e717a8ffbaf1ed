"""The probe API of `probe.proto`, compiled when first imported, with handlers whose behaviour its names choose."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import google.api.annotations_pb2
import grpc
import orjson
from anycloud_common import calls
from anycloud_common.calls import Principal
from anycloud_common.errors import ApiError, NotAvailable
from anycloud_common.rest import route, wrapper
from anycloud_common.server import Draining, ServerKit
from anycloud_common.settings import Settings
from anycloudapi.common.v1 import errors_pb2
from google.api import httpbody_pb2
from grpc_tools import protoc

log = logging.getLogger(__name__)
HERE = Path(__file__).parent
PROTO = HERE.parents[2] / "proto"
_SCRATCH = tempfile.TemporaryDirectory(prefix="probe-")  # removed when the tests end
OUT = Path(_SCRATCH.name)
API_PB = OUT / "api.pb"
TOKEN = "acapi_probe"
VERSION = "0.1.70"


def _compile() -> None:
    google_protos = Path(google.api.annotations_pb2.__file__).parents[2]
    well_known = Path(protoc.__file__).parent / "_proto"
    includes = [f"-I{folder}" for folder in (HERE, PROTO, google_protos, well_known)]
    outputs = [f"--python_out={OUT}", f"--grpc_python_out={OUT}", "--include_imports", f"--descriptor_set_out={API_PB}"]
    if protoc.main(["protoc", *includes, *outputs, "probe.proto", "probe_internal.proto"]) != 0:
        raise RuntimeError("protoc failed")


_compile()
sys.path.insert(0, str(OUT))
pb: Any = importlib.import_module("probe_pb2")
stubs: Any = importlib.import_module("probe_pb2_grpc")
internal_pb: Any = importlib.import_module("probe_internal_pb2")
internal_stubs: Any = importlib.import_module("probe_internal_pb2_grpc")


class StoreBusyLike(Exception):
    unavailable = True


class Things(stubs.ThingsServicer):  # type: ignore[misc]
    """Names that start with `raise-` raise; every other name is echoed with the call's facts as note."""

    def __init__(self) -> None:
        self.calls: list[calls.Call] = []
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def GetThing(self, request: Any, context: Any) -> Any:
        self.calls.append(calls.current())
        self.entered.set()
        if request.name == "hang":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.name == "abort":
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "list again")
        if request.name.startswith("raise-"):
            raise FAILURES[request.name]()
        who = calls.current().principal
        return pb.Thing(name=request.name, note=who.id if who else None)

    async def CreateThing(self, request: Any, context: Any) -> Any:
        self.calls.append(calls.current())
        return request.thing

    async def ListThings(self, request: Any, context: Any) -> Any:
        """Two, or one and a cursor where one is asked for."""
        prefix = request.prefix if request.HasField("prefix") else "t"
        numbers = range(1 if request.HasField("limit") else 2)
        things = [pb.Thing(name=f"{prefix}{n}") for n in numbers]
        following = "a/b c" if len(numbers) == 1 and not request.HasField("cursor") else None
        return pb.ListThingsResponse(things=things, next_cursor=following, total_count=2)

    async def DeleteThing(self, request: Any, context: Any) -> Any:
        self.calls.append(calls.current())
        return pb.google_dot_protobuf_dot_empty__pb2.Empty()

    async def WatchThings(self, request: Any, context: Any) -> AsyncIterator[Any]:
        if request.prefix == "nothing":
            return
        if request.prefix == "raise":
            raise ApiError("API_RESTARTING", "not yet")
        yield pb.Thing(name="first")
        if request.prefix == "break":
            raise RuntimeError("secret detail")
        if request.prefix == "hold":
            await asyncio.Event().wait()
        yield pb.Thing(name="second")


FAILURES: dict[str, Any] = {
    "raise-declared": lambda: ApiError("CLUSTER_NOT_FOUND", "no such thing – “höchst” unique"),
    "raise-data": lambda: ApiError("CREDENTIAL_NOT_FOUND", "none", errors_pb2.CredentialErrorData(name="aws")),
    "raise-undeclared": lambda: ApiError(
        "SECRET_IN_USE", "x", errors_pb2.SecretInUseData(name="s", workload_ids=["w"])
    ),
    "raise-busy": lambda: StoreBusyLike("queue full"),
    "raise-crash": lambda: RuntimeError("secret detail acapi_leaked"),
    "raise-not-available": lambda: NotAvailable("No things are sold here."),
    "raise-refused": lambda: ApiError("UNAUTHORIZED", "no"),
}


class Work(stubs.WorkServicer):  # type: ignore[misc]
    def __init__(self, draining: Draining) -> None:
        self._draining = draining
        self.entered = asyncio.Event()

    async def identify(self, variables: Any) -> None:
        if calls.current().bearer == "foreign":
            raise ApiError("WORKLOAD_UNAUTHORIZED", "not a workload's token")

    async def Next(self, request: Any, context: Any) -> Any:
        await self.identify({})
        bearer = calls.current().bearer
        self.entered.set()
        if request.wait_ms:
            log.info("held")
            await self._draining.race(asyncio.sleep(request.wait_ms / 1000))
            return pb.NextResponse()
        return pb.NextResponse(thing=pb.Thing(name=bearer))

    async def Talk(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            yield pb.NextResponse(thing=pb.Thing(name=f"heard {request.wait_ms}"))


class SignIn(stubs.SignInServicer):  # type: ignore[misc]
    async def Exchange(self, request: Any, context: Any) -> Any:
        return pb.Thing(name=calls.current().bearer)


def left(context: Any) -> str:
    """Seconds until the deadline."""
    seconds = context.time_remaining()
    return "-" if seconds is None else f"{seconds:.0f}"


class Siblings(internal_stubs.SiblingsServicer):  # type: ignore[misc]
    async def Ask(self, request: Any, context: Any) -> Any:
        call = calls.current()
        assert call.principal is not None
        build = call.headers.get("anycloud-build")
        facts = [call.principal.kind, call.principal.id, call.request_id, build, left(context)]
        return internal_pb.Answer(text=" ".join(map(str, facts)))

    async def Follow(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield internal_pb.Answer(text=f"here {left(context)}")
        await asyncio.Event().wait()


class OneToken:
    """Knows `TOKEN` alone."""

    async def user(self, token: str) -> Principal:
        if token != TOKEN:
            raise ApiError("UNAUTHORIZED", "unknown token")
        return Principal("u-1", "demo", "user")


class Probe:
    """Builds the probe service, and keeps its servicers at hand."""

    def __init__(self) -> None:
        self.things = Things()
        self.kit: ServerKit | None = None

    async def build(self, kit: ServerKit) -> None:
        self.kit = kit
        self.work = Work(kit.draining)
        kit.authenticator = OneToken()
        kit.add(stubs.add_ThingsServicer_to_server, self.things)
        kit.add(stubs.add_WorkServicer_to_server, self.work)
        kit.add(stubs.add_SignInServicer_to_server, SignIn())
        kit.add(internal_stubs.add_SiblingsServicer_to_server, Siblings())


def settings(runtime_dir: Path) -> Settings:
    return Settings(
        mode="installer",
        data_dir=runtime_dir,
        runtime_dir=runtime_dir,
        public_url="http://127.0.0.1:1",
        api_version=VERSION,
    )


def channel(runtime_dir: Path) -> grpc.aio.Channel:
    """As a stranger on the socket would connect."""
    return grpc.aio.insecure_channel(f"unix:{runtime_dir}/probe.sock")


GRPC = (("authorization", f"Bearer {TOKEN}"),)
REST = (*GRPC, ("anycloud-client-version", VERSION), ("x-envoy-original-path", "/v1/x"))


class Answer(NamedTuple):
    status: int
    body: Any


def _answer(raw: bytes) -> Answer:
    made = httpbody_pb2.HttpBody.FromString(raw)
    status = re.search(r"; status=(\d+)$", made.content_type)
    return Answer(int(status[1]) if status else 200, orjson.loads(made.data) if made.data else None)


def _wrapped(method: Any, fields: dict[str, Any]) -> tuple[str, bytes]:
    """As Envoy's transcoder would send it."""
    found = route(method)
    assert found is not None
    return found.grpc_path, wrapper.message_class(found)(**fields).SerializeToString()


def method(service: str, name: str) -> Any:
    return pb.DESCRIPTOR.services_by_name[service].methods_by_name[name]


async def rest(channel: grpc.aio.Channel, of: Any, metadata: Any = REST, **fields: Any) -> Answer:
    """An HTTP/JSON call as it leaves Envoy: `fields` are those of the wrapper, all of them lists of text."""
    path, raw = _wrapped(of, fields)
    call: Any = channel.unary_unary(path)
    return _answer(await call(raw, metadata=metadata))


async def rest_stream(channel: grpc.aio.Channel, of: Any, metadata: Any = REST, **fields: Any) -> list[Answer]:
    path, raw = _wrapped(of, fields)
    call: Any = channel.unary_stream(path)
    return [_answer(line) async for line in call(raw, metadata=metadata)]
