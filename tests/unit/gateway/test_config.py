"""What the bootstrap says, without an Envoy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anycloud_gateway import routes
from anycloud_gateway.config import REST_PB, envoy_config
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2


def config(descriptors: Path) -> dict[str, Any]:
    return envoy_config(
        listen_host="127.0.0.1",
        listen_port=8080,
        runtime_dir=Path("/run/ac"),
        admin=9901,
        access_log=Path("/dev/null"),
        descriptors=descriptors,
    )


def manager(descriptors: Path) -> dict[str, Any]:
    listener = config(descriptors)["static_resources"]["listeners"][0]
    found: dict[str, Any] = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return found


def routes_of(descriptors: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manager(descriptors)["route_config"]["virtual_hosts"][0]["routes"]
    return found


def route_to(descriptors: Path, path: str) -> dict[str, Any]:
    for route in routes_of(descriptors):
        match = route["match"]
        if match.get("path") == path or ("prefix" in match and path.startswith(match["prefix"])):
            found: dict[str, Any] = route["route"]
            return found
    raise AssertionError(f"no route to {path}")


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_a_long_poll_has_more_than_the_twenty_seconds_that_it_is_held(descriptors: Path) -> None:
    assert seconds(route_to(descriptors, "/anycloudapi.probe.v1.Work/Next")["timeout"]) == 30


def test_streams_have_no_end_but_ten_silent_minutes(descriptors: Path) -> None:
    route = route_to(descriptors, "/anycloudapi.probe.v1.Things/WatchThings")
    assert (route["timeout"], route["idle_timeout"]) == ("0s", "600s")


def test_methods_that_only_grpc_clients_call_are_routed_by_package(descriptors: Path) -> None:
    route = route_to(descriptors, "/anycloudapi.probe.v1.Work/Talk")
    assert (route["cluster"], route["timeout"]) == ("probe", "0s")


def test_the_time_of_a_whole_request_is_not_limited_as_a_stream_is_one_for_hours(descriptors: Path) -> None:
    assert "request_timeout" not in manager(descriptors)


def test_internal_packages_have_no_route(descriptors: Path) -> None:
    with pytest.raises(AssertionError, match="no route"):
        route_to(descriptors, "/anycloudapi.probe.internal.v1.Siblings/Ask")


def test_a_descriptor_set_with_an_internal_service_is_refused(descriptors: Path, tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    for file in files.file:
        file.package = file.package.replace("probe.v1", "probe.internal.v1")
    (tmp_path / "rest.pb").write_bytes(files.SerializeToString())
    with pytest.raises(ValueError, match="internal"):
        config(tmp_path / "rest.pb")


def test_what_is_slow_on_purpose_gets_its_time(descriptors: Path, tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
    (method,) = (m for f in files.file for s in f.service for m in s.method if m.name == "CreateThing")
    method.options.Extensions[annotations_pb2.http].post = "/v1/system-release"
    (tmp_path / "rest.pb").write_bytes(files.SerializeToString())
    assert seconds(route_to(tmp_path / "rest.pb", "/anycloudapi.probe.v1.Things/CreateThing")["timeout"]) == 120


def test_nothing_is_tried_twice(descriptors: Path) -> None:
    assert all("retry_policy" not in route["route"] for route in routes_of(descriptors))


def test_the_api_has_four_services_behind_four_sockets() -> None:
    clusters = config(REST_PB)["static_resources"]["clusters"]
    sockets = {
        c["name"]: c["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["pipe"]["path"]
        for c in clusters
    }
    assert sockets == {name: f"/run/ac/{name}.sock" for name in ("cluster", "deployment", "nodepool", "release")}


def test_every_path_of_the_api_goes_to_the_service_of_its_package() -> None:
    for method in routes.methods(REST_PB):
        assert route_to(REST_PB, f"/{method.service}/{method.name}")["cluster"] == method.service.split(".")[1]
