"""Requests that no client would send: each gets a refusal in the one form of all errors, and reaches no handler."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest

from tests.contract import wire
from tests.contract.operations import OPERATIONS, Operation
from tests.contract.world import SIGN_IN, Api, World, connection

# The codes of a body without the declared form, where it isn't "undeclared".
INVALID = {
    "create_cluster": "CLUSTER_INVALID",
    "create_node_pool": "NODE_POOL_INVALID",
    "create_deployment": "DEPLOYMENT_INVALID",
    "update_deployment": "DEPLOYMENT_INVALID",
    "submit_workload": "WORKLOAD_ADMISSION_REJECTED",
    "resubmit_workload": "WORKLOAD_MANAGEMENT_REQUEST_INVALID",
    "observe_job_submission": "WORKLOAD_MANAGEMENT_REQUEST_INVALID",
    "upgrade_service": "SERVICE_UPGRADE_INVALID",
    "request_system_release": "SYSTEM_RELEASE_REFUSED",
    "query_database": "DB_QUERY_INVALID",
    "create_bucket": "BUCKET_REQUEST_INVALID",
    "delete_bucket": "BUCKET_REQUEST_INVALID",
    "delete_bucket_object": "BUCKET_REQUEST_INVALID",
    "delete_deployment": "DEPLOYMENT_INVALID",
    "terminate_workload": "WORKLOAD_MANAGEMENT_REQUEST_INVALID",
    "destroy_cluster": "CLUSTER_INVALID",
}
UNDECLARED = "INVALID_REQUEST"
WITH_BODY = [one for one in OPERATIONS if one.body_argument]
WITHOUT_BODY = [one for one in OPERATIONS if not one.body_argument and one.verb != "GET"]

homes: dict[str, str] = {}
"""Of a container's token, the Deployment."""

DEEP = 5000
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "blank": b" \n",
    "null": b"null",
    "true": b"true",
    "a number": b"17",
    "a text": b'"{}"',
    "an array": b"[]",
    "half an object": b'{"a": ',
    "two objects": b"{}{}",
    "a comment": b"{} // done",
    "single quotes": b"{'a': 1}",
    "a comma too many": b'{"a": 1,}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "a number without end": b'{"a": 1e99999}',
    "bytes that are no UTF-8": b'{"a": "\xff\xfe"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "half a surrogate": b'{"a": "\\ud800"}',
    "a control character": b'{"a": "\x01"}',
    "deep arrays": b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"a": ' * DEEP + b"1" + b"}" * DEEP,
    "a key twice": b'{"a": 1, "a": 1}',
}


def caller(world: World, served: dict[str, Any], operation: Operation) -> Api:
    if operation.caller == "workload":
        container = world.worker(served)
        homes[container.token] = served["id"]
        return container
    return Api(world.hosted.url, SIGN_IN) if operation.caller == "sign-in" else world.hosted


def send(api: Api, operation: Operation, content: bytes, kind: str | None = "application/json") -> httpx.Response:
    """A container's calls are about its own Deployment: of others it would be told nothing but that."""
    path = operation.url.replace("/deployments/nope/jobs", f"/deployments/{homes.get(api.token, 'nope')}/jobs", 1)
    headers = {**api.headers, "idempotency-key": "00000000-0000-4000-8000-000000000000"}
    if kind is not None:
        headers["content-type"] = kind
    with connection(headers) as client:
        return client.request(operation.verb, f"{api.url}/v1{path}", content=content, params=operation.query)


def refused_as(operation: Operation) -> tuple[str, bool]:
    """Code, and whether it is a declared one."""
    code = INVALID.get(operation.name)
    return (UNDECLARED, False) if code is None else (code, True)


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
def test_a_body_that_is_not_what_is_asked_for(world: World, served: dict[str, Any], operation: Operation) -> None:
    api = caller(world, served, operation)
    code, defined = refused_as(operation)
    for name, body in BODIES.items():
        answer = send(api, operation, body)
        try:
            wire.check_refused(answer, 400, code, defined=defined)
        except AssertionError as wrong:
            raise AssertionError(f"{name}: {wrong}") from None


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
def test_a_key_that_nobody_knows_is_refused_by_its_name(
    world: World, served: dict[str, Any], operation: Operation
) -> None:
    code, defined = refused_as(operation)
    body = json.dumps({**operation.body, "nobody knows": 1}).encode()
    answer = send(caller(world, served, operation), operation, body)
    assert '"nobody knows"' in wire.check_refused(answer, 400, code, defined=defined)


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "application/grpc"]
)
def test_a_body_of_another_type_is_not_read(
    world: World, served: dict[str, Any], operation: Operation, kind: str
) -> None:
    answer = send(caller(world, served, operation), operation, json.dumps(operation.body).encode(), kind)
    code, defined = refused_as(operation)
    assert "application/json" in wire.check_refused(answer, 400, code, defined=defined)


@pytest.mark.parametrize("operation", WITHOUT_BODY, ids=lambda one: one.name)
def test_a_body_where_none_is_taken(world: World, served: dict[str, Any], operation: Operation) -> None:
    code, defined = refused_as(operation)
    answer = send(caller(world, served, operation), operation, b'{"a": 1}')
    assert "no body" in wire.check_refused(answer, 400, code, defined=defined)


def fields(body: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every leaf of a body."""
    found: list[tuple[str, ...]] = []
    for name, value in body.items():
        found += fields(value, (*path, name)) if isinstance(value, dict) and value else [(*path, name)]
    return found


def replaced(body: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**body, name: replaced(body[name], tuple(rest), value) if rest else value}


RICH: dict[str, dict[str, Any]] = {
    "create_node_pool": {"cluster": "c", "region": "r", "zone": "z"},
    "create_deployment": {
        "command": ["c"],
        "env": {"A": "b"},
        "secrets": ["s"],
        "dockerOptions": {"binds": ["/a"], "cpus": "1", "privileged": True},
        "readinessProbe": {"exec": {"command": ["c"]}, "periodSeconds": 1},
        "replicas": 1,
    },
    "update_deployment": {"image": "i", "env": {"A": "b"}, "dockerOptions": {"binds": ["/a"], "memory": "1g"}},
    "submit_workload": {"timeout": 1, "session": "s", "nodes": 1, "resumable": False, "launch": "single"},
    "save_secret": {"values": {"A": "b"}},
    "update_credential": {"apiKey": "k", "jurisdiction": "eu"},
    "resubmit_workload": {"timeout": 1, "session": "s"},
    "observe_job_submission": {"waitMs": 0},
    "report_deployment_job_outcome": {"message": "m"},
    "upgrade_service": {"binds": ["/a"], "env": {"A": "b"}},
    "test_notification_channel": {"webhook": "w"},
}


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda one: one.name)
def test_a_value_of_the_wrong_type_is_refused_by_its_key(
    world: World, served: dict[str, Any], operation: Operation
) -> None:
    api = caller(world, served, operation)
    code, defined = refused_as(operation)
    body = {**operation.body, **RICH.get(operation.name, {})}
    for path in fields(body):
        for wrong in wrong_values(body, path):
            answer = send(api, operation, json.dumps(replaced(body, path, wrong)).encode())
            try:
                message = wire.check_refused(answer, 400, code, defined=defined)
            except AssertionError as problem:
                raise AssertionError(f"{'.'.join(path)} = {json.dumps(wrong)}: {problem}") from None
            assert message.startswith(path[0]), f"{'.'.join(path)} = {json.dumps(wrong)}: {message}"


def wrong_values(body: dict[str, Any], path: tuple[str, ...]) -> list[Any]:
    """Values of every JSON type but the right one; whole numbers also spelled as fractions, and beyond 2^53 - 1."""
    right: Any = body
    for name in path:
        right = right[name]
    others: list[Any] = [{"x": {}}, [[]], "", 2**53, 1.5, True]
    same: dict[type, list[Any]] = {bool: [True], str: [""], list: [], float: [], int: []}
    wrong = [one for one in others if type(one) is not type(right) and one not in same.get(type(right), [])]
    if type(right) is int and path[-1] != "timeout":
        wrong += [2**53, -(2**53), 2**64, "1", 1.0]
    if path[-1] == "timeout":  # a number of seconds, with or without a fraction
        wrong = [one for one in wrong if type(one) not in (int, float)]
    return wrong


@pytest.mark.parametrize("size", [2 << 20, (8 << 20) - 4096])
def test_a_large_body_is_read_and_judged(hosted: Api, size: int) -> None:
    body = json.dumps({"values": {"A": "x" * size}}).encode()
    [save] = [one for one in OPERATIONS if one.name == "save_secret"]
    assert "values" in wire.check_refused(send(hosted, save, body), 400, UNDECLARED, defined=False)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_not_read(hosted: Api, chunked: bool) -> None:
    size = (8 << 20) + 1
    content: Any = iter([b"x" * (1 << 20)] * 9) if chunked else b"x" * size
    with connection({**hosted.headers, "content-type": "application/json"}) as client:
        answer = client.post(f"{hosted.url}/v1/workloads", content=content)
    assert "8 MiB" in wire.check_refused(answer, 413, "PAYLOAD_TOO_LARGE", defined=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v1/nothing"),
        ("GET", "/v2/clusters"),
        ("GET", "/clusters"),
        ("GET", "/v1/clusters/a/b"),
        ("GET", "/v1/clusters//a"),
        ("GET", "/v1/clusters/"),
        ("GET", "/v1/clusters/a/"),
        ("GET", "/v1/clusters/?limit=1"),
        ("DELETE", "/v1/deployments/"),
        ("GET", "/v1/clusters/.."),
        ("GET", "/v1/clusters/%2E%2E"),
        ("GET", "/v1/clusters/../../etc/passwd"),
        ("PUT", "/v1/clusters"),
        ("PATCH", "/v1/clusters"),
        ("DELETE", "/v1/clusters"),
        ("POST", "/v1/clusters/a"),
        ("PUT", "/v1/deployments/a"),
        ("OPTIONS", "/v1/clusters"),
        ("TRACE", "/v1/clusters"),
        ("HEAD", "/v1/clusters"),
        ("POST", "/anycloudapi.cluster.v1.Clusters/ListClusters"),
        ("POST", "/anycloudapi.cluster.internal.v1.Introspection/Introspect"),
    ],
)
def test_a_path_or_a_verb_that_there_is_not(hosted: Api, method: str, path: str) -> None:
    """Sent as it stands: clients tidy paths up."""
    status, headers, body = raw(hosted, f"{method} {path} HTTP/1.1")
    assert status == 404
    assert headers["content-type"] == "application/json"
    if method != "HEAD":
        wire.check(wire.error("NOT_FOUND", 404, "There is no such operation.", defined=False), json.loads(body))


@pytest.mark.parametrize(
    "line",
    [
        "GET /v1/clusters/a%00b HTTP/1.1",
        "GET /v1/clusters/\x01 HTTP/1.1",
        "CONNECT /v1/clusters HTTP/1.1",
        "BREW /v1/clusters HTTP/1.1",
        "GET /v1/clusters HTTP/1.1\r\ncontent-length: x",
        "GET /v1/clusters HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked",
        "GET /v1/clusters HTTP/1.1\r\nbroken header",
    ],
)
def test_what_is_no_http_request_is_refused_in_the_same_form(hosted: Api, line: str) -> None:
    status, headers, body = raw(hosted, line)
    assert status in (400, 403, 501)
    assert headers["content-type"] == "application/json"
    wire.check(wire.error("<string>", status, "<anything>", defined=False), json.loads(body))


def test_headers_that_are_too_large(hosted: Api) -> None:
    status, _, body = raw(hosted, "GET /v1/clusters HTTP/1.1\r\nx-filler: " + "x" * (30 << 10))
    assert status == 431
    wire.check(wire.error("<string>", 431, "<string>", defined=False), json.loads(body))


def raw(api: Api, line: str) -> tuple[int, dict[str, str], bytes]:
    """Sends a request line (and headers) byte for byte; status, headers and body of the answer."""
    url = httpx.URL(api.url)
    sent = {"host": url.netloc.decode(), **api.headers}
    text = line + "\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items()) + "\r\n"
    with socket.create_connection((url.host, url.port), timeout=20) as connected, connected.makefile("rb") as answer:
        connected.sendall(text.encode())
        status = int(answer.readline().split()[1])
        headers = {}
        while header := answer.readline().strip():
            name, _, value = header.decode().partition(": ")
            headers[name] = value
        return status, headers, b"" if line.startswith("HEAD") else answer.read(int(headers["content-length"]))
