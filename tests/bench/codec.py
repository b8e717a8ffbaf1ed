"""Cost of the REST codec per message, beside protobuf's own json_format and pydantic in the same run.

Usage: python tests/bench/codec.py [seconds of a measurement]   (one process; read the ratios, not the microseconds)

Encoding is typed message -> bytes of HttpBody; decoding is bytes of Envoy's wrapper -> typed request, with all checks.
json_format writes and reads its own dialect of the same message, without bounds, envelope or parameters. pydantic
writes (`model_dump_json`) the very same JSON from a finished model, and reads (`model_validate_json`) it into one, with
the same bounds and without conversions; what either of us then needs to be a protobuf message isn't counted for it.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from anycloud_common.rest import Binding, load, routes, wrapper
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2, workloads_pb2
from anycloudapi.nodepool.v1 import node_pools_pb2
from google.api import httpbody_pb2
from google.protobuf import json_format
from google.protobuf.message import Message
from pydantic import BaseModel

from tests.bench.doors import models

POOL = node_pools_pb2.NodePool(
    id="np-4k2zq7w3x5ab",
    name="trainers",
    cluster_id="cl-7h3kq2w9x4bc",
    state=node_pools_pb2.NodePool.STATE_RUNNING,
    cloud_provider=types_pb2.CLOUD_PROVIDER_AWS,
    region="us-east-1",
    vm_types=["g5.xlarge", "g5.2xlarge"],
    max_vm_count=4,
    capacity=node_pools_pb2.NodePool.Capacity(
        ready_vm_count=2,
        locations=[node_pools_pb2.NodePool.Location(region="us-east-1", zone="a", vm_type="g5.xlarge")],
    ),
    ingress=node_pools_pb2.NodePool.Ingress(entry_ip="127.1.2.3"),
    created_at=1700000000123,
    updated_at=1700000000456,
)
DEPLOYMENT = deployments_pb2.Deployment(
    id="dep-4k2zq7w3x5ab",
    name="trainer",
    image="registry.example/trainer:1",
    node_pool_id=POOL.id,
    target=deployments_pb2.Deployment.Target(
        kind=deployments_pb2.Deployment.Target.KIND_NODE_POOL,
        node_pool_id=POOL.id,
    ),
    command=types_pb2.StringList(values=["python", "-m", "trainer"]),
    env_keys=["MODE", "LEVEL"],
    replicas=1,
    max_concurrent_jobs_per_replica=4,
    generation=3,
    jobs=deployments_pb2.Deployment.Jobs(queued=7, running=4),
    created_at=1700000000123,
    updated_at=1700000000456,
)
CREATE_POOL = (
    b'{"name":"trainers","credentialName":"main","region":"us-east-1","vmTypes":["g5.xlarge"],'
    b'"minVmCount":0,"maxVmCount":4}'
)
CREATE_DEPLOYMENT = (
    b'{"name":"trainer","image":"registry.example/trainer:1","nodePool":"trainers","command":["python","-m","trainer"],'
    b'"env":{"MODE":"fast","LEVEL":"3"},"maxConcurrentJobsPerReplica":4,"replicas":1}'
)
SUBMIT = b'{"id":"job-4k2zq7w3x5ab","workloadType":"job","deployment":"trainer","timeout":60}'
PATCH = b'{"image":"registry.example/trainer:2","dockerOptions":{"cpus":"6","memory":null,"privileged":false}}'

_MODULES = (node_pools_pb2, deployments_pb2, workloads_pb2)

ROUNDS = 20


class Case(NamedTuple):
    label: str
    codec: Callable[[], object]
    json_format: Callable[[], object]
    pydantic: Callable[[], object]


BINDINGS = load(routes(service for module in _MODULES for service in module.DESCRIPTOR.services_by_name.values()))


def binding(method: str) -> Binding:
    return next(b for path, b in BINDINGS.items() if path.endswith(f"/{method}"))


def encodings() -> Iterator[Case]:
    pools = node_pools_pb2.ListNodePoolsResponse(node_pools=[POOL] * 100)
    shapes: tuple[tuple[str, str, Message, type[BaseModel]], ...] = (
        ("node pool", "GetNodePool", POOL, models.NodePoolAnswer),
        ("Deployment", "GetDeployment", DEPLOYMENT, models.DeploymentAnswer),
        ("100 node pools", "ListNodePools", pools, models.NodePoolsAnswer),
    )
    for label, method, message, model in shapes:
        encode = partial(binding(method).encode, message)
        json = httpbody_pb2.HttpBody.FromString(encode()).data
        dump = partial(model.model_validate_json(json).model_dump_json, by_alias=True)
        assert dump().encode() == json, label
        theirs = partial(json_format.MessageToJson, message, indent=None, always_print_fields_with_no_presence=True)
        yield Case(f"encode {label}", encode, theirs, dump)


def decodings() -> Iterator[Case]:
    shapes: tuple[tuple[str, str, bytes, type[BaseModel]], ...] = (
        ("node pool to create", "CreateNodePool", CREATE_POOL, models.NodePoolToCreate),
        ("Deployment to create", "CreateDeployment", CREATE_DEPLOYMENT, models.DeploymentToCreate),
        ("Job to submit", "SubmitWorkload", SUBMIT, models.Submit),
        ("Deployment's PATCH", "UpdateDeployment", PATCH, models.DeploymentPatch),
    )
    for label, method, body, model in shapes:
        route = binding(method).route
        wrapped: Any = wrapper.message_class(route)()
        for param in route.params:
            getattr(wrapped, param.wire).append("dep-4k2zq7w3x5ab")
        wrapped.http_body.data = body
        wrapped.http_body.content_type = "application/json"
        raw = wrapped.SerializeToString()
        request = binding(method).decode(raw)
        theirs = partial(parse, json_format.MessageToJson(request), type(request))
        validate = partial(model.model_validate_json, body)
        yield Case(f"decode {label}", partial(binding(method).decode, raw), theirs, validate)


def parse(text: str, kind: type[Message]) -> Message:
    return json_format.Parse(text, kind())


def microseconds(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    """The best of each call's rounds, which together take about so many seconds; the calls take turns."""
    rounds = [max(1, int(seconds / ROUNDS / min(timeit.repeat(call, number=1, repeat=3)))) for call in calls]
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            best[index] = min(best[index], timeit.timeit(call, number=rounds[index]) / rounds[index])
    return [taken * 1e6 for taken in best]


def main(seconds: float = 0.2) -> None:
    print(f"{'':29}{'codec':>10}{'json_format':>14}{'ours / it':>11}{'pydantic':>12}{'ours / it':>11}")
    for label, *calls in (*encodings(), *decodings()):
        ours, theirs, pydantic = microseconds(calls, seconds)
        print(
            f"{label:29}{ours:7.1f} us{theirs:11.1f} us{ours / theirs:11.2f}{pydantic:9.1f} us{ours / pydantic:11.2f}"
        )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
