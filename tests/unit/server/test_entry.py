from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import pytest
from anycloud_common import errors
from anycloud_common.clock import ManualClock
from anycloud_common.server import ServerKit, serving
from google.protobuf.empty_pb2 import Empty

from tests.unit.server import probe_api
from tests.unit.server.probe_api import GRPC, REST, Probe, method, pb, rest, rest_stream

Channel = grpc.aio.Channel
GET = method("Things", "GetThing")
CREATE = method("Things", "CreateThing")
DELETE = method("Things", "DeleteThing")


def without(metadata: Any, *names: str) -> Any:
    return tuple((key, value) for key, value in metadata if key not in names)


def thing(channel: Channel, name: str = "a", metadata: Any = GRPC) -> Any:
    return probe_api.stubs.ThingsStub(channel).GetThing(pb.GetThingRequest(name=name), metadata=metadata)


async def code_of(call: Any) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    declared = errors.from_rpc(failed.value)
    return failed.value.code(), declared.code if declared else None


# --- who is let in


async def test_a_user_method_knows_its_caller(probe: Probe, channel: Channel) -> None:
    assert (await thing(channel)).note == "u-1"
    assert (await rest(channel, GET, name=["a"])).body == {"name": "a", "note": "u-1"}


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic acapi_probe", "Bearer", "acapi_probe"])
async def test_a_user_method_refuses_whoever_shows_no_valid_token(
    probe: Probe, channel: Channel, header: str | None
) -> None:
    shown = () if header is None else (("authorization", header),)
    assert await code_of(thing(channel, metadata=shown)) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHORIZED")
    answer = await rest(channel, GET, without(REST, "authorization") + shown, name=["a"])
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (401, "UNAUTHORIZED", True)
    assert probe.things.calls == []


async def test_a_second_authorization_header_spoils_the_first(probe: Probe, channel: Channel) -> None:
    for twice in [(*GRPC, ("authorization", "Bearer x")), (("authorization", "Bearer x"), *GRPC)]:
        assert (await code_of(thing(channel, metadata=twice)))[1] == "UNAUTHORIZED"


async def test_a_service_without_an_authenticator_lets_nobody_in(runtime_dir: Path) -> None:
    async def build(kit: ServerKit) -> None:
        kit.add(probe_api.stubs.add_ThingsServicer_to_server, probe_api.Things())

    async with serving("probe", probe_api.settings(runtime_dir), build), probe_api.channel(runtime_dir) as channel:
        assert (await code_of(thing(channel)))[1] == "AUTHENTICATION_UNAVAILABLE"


async def test_workload_methods_get_the_bearer_and_no_client_version(probe: Probe, channel: Channel) -> None:
    metadata = without(REST, "anycloud-client-version")
    answer = await rest(channel, method("Work", "Next"), metadata)
    assert (answer.status, answer.body) == (200, {"name": probe_api.TOKEN, "note": None})


async def test_a_workload_method_without_bearer_answers_its_own_401(probe: Probe, channel: Channel) -> None:
    answer = await rest(channel, method("Work", "Next"), without(REST, "authorization"))
    assert (answer.status, answer.body["code"]) == (401, "WORKLOAD_UNAUTHORIZED")


@pytest.mark.parametrize(
    ("bearer", "told"), [("foreign", (401, "WORKLOAD_UNAUTHORIZED")), ("own", (400, "INVALID_REQUEST"))]
)
async def test_a_stranger_is_not_told_what_is_wrong_with_a_request(
    probe: Probe, channel: Channel, bearer: str, told: tuple[int, str]
) -> None:
    """Where the handler itself checks who calls, which it can't do for a request that can't be decoded."""
    signed = (("authorization", f"Bearer {bearer}"),)
    answer = await rest(channel, method("Work", "Next"), without(REST, "authorization") + signed, wait_ms=["soon"])
    assert (answer.status, answer.body["code"]) == told
    call: Any = channel.unary_unary("/anycloudapi.probe.v1.Work/Next")
    expected = {401: grpc.StatusCode.UNAUTHENTICATED, 400: grpc.StatusCode.INVALID_ARGUMENT}[told[0]]
    assert (await code_of(call(b"\xff", metadata=signed)))[0] == expected


async def test_sign_in_methods_get_the_bearer_and_check_the_client_version(probe: Probe, channel: Channel) -> None:
    exchange = method("SignIn", "Exchange")
    signed = (("authorization", "bearer ghs_demo"),)
    assert (await rest(channel, exchange, without(REST, "authorization") + signed)).body["name"] == "ghs_demo"
    assert (await rest(channel, exchange, without(REST, "authorization"))).body["code"] == "UNAUTHORIZED"
    answer = await rest(channel, exchange, without(REST, "anycloud-client-version"))
    assert answer.body["code"] == "CLIENT_VERSION_MISMATCH"


async def test_user_methods_do_not_see_the_bearer(probe: Probe, channel: Channel) -> None:
    await thing(channel, metadata=(*GRPC, ("anycloud-github-token", "ghs_x"), ("idempotency-key", "k")))
    call = probe.things.calls[0]
    assert (call.bearer, call.github_token, call.idempotency_key, call.rest) == (None, "ghs_x", "k", False)
    assert not {"authorization", "anycloud-github-token"} & set(call.headers)
    assert "ghs_x" not in repr(call)


async def test_internal_methods_want_a_caller(probe: Probe, channel: Channel) -> None:
    ask = probe_api.internal_stubs.SiblingsStub(channel).Ask
    assert (await code_of(ask(Empty(), metadata=GRPC)))[0] == grpc.StatusCode.UNAUTHENTICATED
    answer = await ask(Empty(), metadata=(("anycloud-caller", "nodepool"), ("anycloud-request-id", "r-7")))
    assert answer.text.startswith("service nodepool r-7")


async def test_an_internal_caller_is_no_user(probe: Probe, channel: Channel) -> None:
    metadata = (("anycloud-caller", "nodepool"), ("anycloud-principal", "u-1"))
    assert (await code_of(thing(channel, metadata=metadata)))[1] == "UNAUTHORIZED"


async def test_health_is_open(probe: Probe, channel: Channel) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_is_open_and_shows_the_public_api_and_no_more(
    channel: Channel, probe: Probe, version: str
) -> None:
    from grpc_reflection.v1alpha import reflection_pb2

    ask: Any = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    question = reflection_pb2.ServerReflectionRequest
    asked = [
        question(list_services=""),
        question(file_containing_symbol="anycloudapi.cluster.v1.Clusters"),
        question(file_containing_symbol="anycloudapi.probe.internal.v1.Siblings"),
        question(file_by_filename="anycloudapi/cluster/internal/v1/introspection.proto"),
    ]
    services, public, *internal = [answer async for answer in ask(iter(asked))]
    names = {service.name for service in services.list_services_response.service}
    assert {"anycloudapi.cluster.v1.Clusters", "anycloudapi.probe.v1.Things"} < names
    assert not [name for name in names if ".internal." in name]
    assert len(public.file_descriptor_response.file_descriptor_proto) > 1
    assert [answer.error_response.error_code for answer in internal] == [grpc.StatusCode.NOT_FOUND.value[0]] * 2


# --- client versions


@pytest.mark.req("CLI-002")
@pytest.mark.parametrize("sent", ["0.1.69", None])
async def test_a_mismatch_is_refused_before_any_effect(probe: Probe, channel: Channel, sent: str | None) -> None:
    metadata = without(REST, "anycloud-client-version")
    metadata += (("anycloud-client-version", sent),) if sent else ()
    answer = await rest(channel, CREATE, metadata, http_body={"data": b'{"name": "x"}'})
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (400, "CLIENT_VERSION_MISMATCH", True)
    assert probe_api.VERSION in answer.body["message"]
    assert (sent or "") in answer.body["message"]
    assert probe.things.calls == []


async def test_grpc_callers_need_no_version_but_may_not_say_a_wrong_one(probe: Probe, channel: Channel) -> None:
    await thing(channel)
    wrong = (*GRPC, ("anycloud-client-version", "9.9.9"))
    assert (await code_of(thing(channel, metadata=wrong)))[1] == "CLIENT_VERSION_MISMATCH"


async def test_a_method_may_serve_neighbours(probe: Probe, channel: Channel) -> None:
    metadata = (*without(REST, "anycloud-client-version"), ("anycloud-client-version", "0.2.0"))
    assert (await rest(channel, DELETE, metadata, name=["a"])).status == 204
    assert (await rest(channel, GET, metadata, name=["a"])).status == 400


async def test_a_caller_without_token_learns_nothing_about_versions(probe: Probe, channel: Channel) -> None:
    metadata = without(REST, "authorization", "anycloud-client-version")
    assert (await rest(channel, GET, metadata, name=["a"])).body["code"] == "UNAUTHORIZED"


# --- request ids


async def test_the_request_id_is_envoys_else_a_siblings_else_new(probe: Probe, channel: Channel) -> None:
    both = (*GRPC, ("x-request-id", "from-envoy"), ("anycloud-request-id", "from-sibling"))
    await thing(channel, metadata=both)
    await thing(channel, metadata=without(both, "x-request-id"))
    await thing(channel)
    await thing(channel)
    ids = [call.request_id for call in probe.things.calls]
    assert ids[:2] == ["from-envoy", "from-sibling"]
    assert len(set(ids)) == 4
    assert all(ids)


# --- answers


async def test_rest_success_has_the_methods_status_and_shape(probe: Probe, channel: Channel) -> None:
    created = await rest(channel, CREATE, http_body={"content_type": "application/json", "data": b'{"name": "x"}'})
    assert created == (202, {"thing": {"name": "x", "note": None}})
    assert await rest(channel, DELETE, name=["a"]) == (204, None)
    assert (await rest(channel, method("Things", "ListThings"), prefix=["p"])).body[0] == {"name": "p0", "note": None}


async def test_a_misshapen_body_gets_the_methods_own_code(probe: Probe, channel: Channel) -> None:
    answer = await rest(channel, CREATE, http_body={"data": b'{"name": 5}'})
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (400, "CLUSTER_INVALID", True)
    assert "name" in answer.body["message"]


async def test_a_misshapen_query_gets_an_undeclared_code_where_the_method_names_none(
    probe: Probe, channel: Channel
) -> None:
    answer = await rest(channel, GET, name=["a", "evil"])
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (400, "INVALID_REQUEST", False)


async def test_bytes_that_are_no_request_are_an_invalid_argument(probe: Probe, channel: Channel) -> None:
    call: Any = channel.unary_unary("/anycloudapi.probe.v1.Things/GetThing")
    assert (await code_of(call(b"\xff\xff\xff", metadata=GRPC)))[0] == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_misshapen_message_gets_the_methods_own_code_too(probe: Probe, channel: Channel) -> None:
    call = probe_api.stubs.ThingsStub(channel).CreateThing(pb.CreateThingRequest(), metadata=GRPC)
    assert await code_of(call) == (grpc.StatusCode.INVALID_ARGUMENT, "CLUSTER_INVALID")
    assert (await code_of(thing(channel, "")))[0] == grpc.StatusCode.INVALID_ARGUMENT


async def test_declared_errors_have_code_status_and_data_in_both_forms(probe: Probe, channel: Channel) -> None:
    answer = await rest(channel, GET, name=["raise-data"])
    assert answer == (
        404,
        {"code": "CREDENTIAL_NOT_FOUND", "defined": True, "message": "none", "status": 404, "data": {"name": "aws"}},
    )
    assert await code_of(thing(channel, "raise-data")) == (grpc.StatusCode.NOT_FOUND, "CREDENTIAL_NOT_FOUND")


async def test_a_code_that_the_method_does_not_declare_is_answered_as_undeclared_and_logged(
    probe: Probe, channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await rest(channel, GET, name=["raise-undeclared"])
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (409, "SECRET_IN_USE", False)
    assert [r.levelno for r in caplog.records if "declare" in r.message] == [logging.ERROR]


async def test_what_is_not_available_is_said_so_in_both_forms(
    probe: Probe, channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    said = "No things are sold here."
    answer = await rest(channel, GET, name=["raise-not-available"])
    assert answer == (403, {"code": "NOT_AVAILABLE", "defined": False, "message": said, "status": 403})
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await thing(channel, "raise-not-available")
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.PERMISSION_DENIED, said)
    assert b"NOT_AVAILABLE" in dict(failed.value.trailing_metadata() or ())[errors.STATUS_DETAILS]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_store_that_is_busy_is_the_methods_503(probe: Probe, channel: Channel) -> None:
    answer = await rest(channel, GET, name=["raise-busy"])
    assert (answer.status, answer.body["code"], answer.body["defined"]) == (503, "CLUSTER_UNAVAILABLE", True)
    assert "queue full" not in answer.body["message"]
    assert await code_of(thing(channel, "raise-busy")) == (grpc.StatusCode.UNAVAILABLE, "CLUSTER_UNAVAILABLE")


async def test_a_sibling_that_is_away_is_the_methods_503(probe: Probe, channel: Channel) -> None:
    for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        probe_api.FAILURES["raise-sibling"] = lambda code=code: grpc.aio.AioRpcError(code, None, None, "socket gone")
        answer = await rest(channel, GET, name=["raise-sibling"])
        assert (answer.status, answer.body["code"]) == (503, "CLUSTER_UNAVAILABLE")
        assert "socket" not in answer.body["message"]


async def test_an_exception_is_told_to_the_log_alone(
    probe: Probe, channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await rest(channel, GET, name=["raise-crash"])
    assert answer == (500, {"code": "INTERNAL", "defined": False, "message": "internal error", "status": 500})
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await thing(channel, "raise-crash")
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.INTERNAL, "internal error")
    assert caplog.text.count("RuntimeError: secret detail") == 2


async def test_a_caller_that_leaves_cancels_the_handler(probe: Probe, channel: Channel) -> None:
    call = thing(channel, "hang")
    await probe.things.entered.wait()
    call.cancel()
    await asyncio.wait_for(probe.things.cancelled.wait(), 5)


async def test_a_handler_that_ends_the_call_itself_keeps_its_status(probe: Probe, channel: Channel) -> None:
    assert await code_of(thing(channel, "abort")) == (grpc.StatusCode.OUT_OF_RANGE, None)


# --- streams


async def test_a_rest_stream_is_a_line_a_message(probe: Probe, channel: Channel) -> None:
    lines = await rest_stream(channel, method("Things", "WatchThings"))
    assert [line.body["name"] for line in lines] == ["first", "second"]


async def test_a_rest_stream_that_fails_before_its_first_line_has_the_errors_status(
    probe: Probe, channel: Channel
) -> None:
    (line,) = await rest_stream(channel, method("Things", "WatchThings"), prefix=["raise"])
    assert (line.status, line.body["code"]) == (503, "API_RESTARTING")


async def test_a_rest_stream_that_fails_later_ends_with_an_error_line(probe: Probe, channel: Channel) -> None:
    first, last = await rest_stream(channel, method("Things", "WatchThings"), prefix=["break"])
    assert first.body["name"] == "first"
    assert last.body == {"error": {"code": "INTERNAL", "defined": False, "message": "internal error", "status": 500}}


async def test_a_grpc_stream_fails_with_a_status(probe: Probe, channel: Channel) -> None:
    stream = probe_api.stubs.ThingsStub(channel).WatchThings(pb.ListThingsRequest(prefix="raise"), metadata=GRPC)
    assert await code_of(stream.read()) == (grpc.StatusCode.UNAVAILABLE, "API_RESTARTING")


async def test_a_bidirectional_stream_is_checked_once_and_talks(probe: Probe, channel: Channel) -> None:
    talk = probe_api.stubs.WorkStub(channel).Talk
    stream = talk(metadata=GRPC)
    for n in (1, 2):
        await stream.write(pb.NextRequest(wait_ms=n))
        assert (await stream.read()).thing.name == f"heard {n}"
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert (await code_of(talk().read()))[1] == "WORKLOAD_UNAUTHORIZED"


# --- wrong tokens are slowed down


async def test_the_sixth_wrong_token_of_a_minute_waits_and_a_valid_one_does_not(
    probe: Probe, channel: Channel, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = (("authorization", "Bearer acapi_guess"), ("x-forwarded-for", "203.0.113.9"))
    for _ in range(5):
        await code_of(thing(channel, metadata=wrong))
    held = asyncio.create_task(code_of(thing(channel, metadata=wrong)))
    await clock.sleeping(1)
    assert not held.done()
    await thing(channel, metadata=(*GRPC, ("x-forwarded-for", "203.0.113.9")))
    await clock.advance(0.2)
    assert (await held)[1] == "UNAUTHORIZED"
    assert "acapi_guess" not in caplog.text
    assert {getattr(r, "source", None) for r in caplog.records if r.message == "bearer refused"} == {"203.0.113.9"}


async def test_handlers_that_refuse_a_bearer_count_too(probe: Probe, channel: Channel, clock: ManualClock) -> None:
    foreign = (("authorization", "Bearer foreign"),)
    call = probe_api.stubs.WorkStub(channel).Next
    for _ in range(5):
        assert (await code_of(call(pb.NextRequest(), metadata=foreign)))[1] == "WORKLOAD_UNAUTHORIZED"
    held = asyncio.create_task(code_of(call(pb.NextRequest(), metadata=foreign)))
    await clock.sleeping(1)
    await clock.advance(0.2)
    await held


async def test_an_address_is_the_one_that_our_own_envoy_saw(
    probe: Probe, channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    await code_of(thing(channel, metadata=(("x-forwarded-for", "198.51.100.1, 203.0.113.9"),)))
    assert [r.source for r in caplog.records if r.message == "bearer refused"] == ["203.0.113.9"]  # type: ignore[attr-defined]
