"""Facts of each method, Envoy's descriptor set, and protos that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from anycloud_common.rest import Codec, load, routes
from anycloud_common.rest.descriptors import build, main
from anycloudapi.rest.v1 import options_pb2 as rest
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2, descriptor_pool

from tests.unit.rest.shapes import FILES, ROUTES, SERVICE, binding, mistakes, pb


def test_a_route_has_the_facts_of_its_method() -> None:
    route = ROUTES["CreateThing"]
    assert (route.verb, route.path, route.body, route.response_body) == ("post", "/v1/things", "thing", "")
    assert (route.success, route.wrap, route.no_content_when_unset) == (202, "thing", False)
    assert route.errors == ("THING_EXISTS", "THING_INVALID")
    assert (route.invalid, route.unavailable) == ("THING_INVALID", "THING_UNAVAILABLE")
    assert (route.access, route.client_version) == (rest.ACCESS_UNSPECIFIED, rest.VERSION_RULE_NEIGHBOUR)
    assert route.grpc_path == "/shapes.v1.Things/CreateThing"
    assert ROUTES["NextThing"].access == rest.ACCESS_WORKLOAD
    assert ROUTES["FollowThing"].streams


def test_parameters_are_the_leaves_that_the_body_does_not_fill() -> None:
    def params(method: str) -> list[tuple[str, bool]]:
        return [(p.wire, p.in_path) for p in ROUTES[method].params]

    assert params("CreateThing") == []
    assert params("UpdateThing") == [("id", True)]
    assert params("PaintThing") == [("thing.id", True), ("layer", True)]
    assert params("ListThings") == [
        (name, False) for name in ("owner", "waitMs", "force", "ratio", "colours", "sinceMs", "page.size", "page.token")
    ]


def test_a_method_without_http_rule_has_no_route() -> None:
    assert "Inspect" not in ROUTES
    assert len(ROUTES) == len(SERVICE.methods) - 1


def test_nothing_is_compiled_before_a_route_is_used() -> None:
    fresh = load(ROUTES.values(), Codec())["/shapes.v1.Things/GetThing"]
    assert vars(fresh).keys() == {"route", "_codec"}


def test_the_same_protos_give_the_same_descriptor_set(tmp_path: Path) -> None:
    api, first, second = (tmp_path / name for name in ("api.pb", "first.pb", "second.pb"))
    api.write_bytes(FILES.SerializeToString())
    main(api, first)
    main(api, second)
    assert first.read_bytes() == second.read_bytes() != b""


def test_envoy_is_told_every_route_and_no_typed_message() -> None:
    made = build(FILES)
    pool = descriptor_pool.DescriptorPool()
    for file in made.file:
        pool.Add(file)
    service = pool.FindServiceByName("shapes.v1.Things")
    assert [method.name for method in service.methods] == list(ROUTES)
    for method in service.methods:
        http = method.GetOptions().Extensions[annotations_pb2.http]
        route = ROUTES[method.name]
        assert getattr(http, route.verb) == route.path
        assert http.body == ("http_body" if route.takes_body else "")
        assert (method.output_type.full_name, method.server_streaming) == ("google.api.HttpBody", route.streams)
    assert all(m.name.endswith("Rest") for file in made.file if file.package == "shapes.v1" for m in file.message_type)


def test_envoy_and_service_share_one_wrapper() -> None:
    pool = descriptor_pool.DescriptorPool()
    for file in build(FILES).file:
        pool.Add(file)
    for name, route in ROUTES.items():
        told, own = descriptor_pb2.DescriptorProto(), descriptor_pb2.DescriptorProto()
        pool.FindMessageTypeByName(f"shapes.v1.Things{name}Rest").CopyToProto(told)
        binding(name)._wrapper.DESCRIPTOR.CopyToProto(own)
        assert str(told).replace(".shapes.v1.", "") == str(own).replace(".wrapper.", ""), route.path


def test_wrapper_fields_have_numbers_of_their_own() -> None:
    typed = {field.number for field in pb.ListThingsRequest.DESCRIPTOR.fields}
    wrapped = binding("ListThings")._wrapper.DESCRIPTOR.fields_by_number.keys()
    assert typed.isdisjoint(wrapped)


@pytest.mark.parametrize(
    "name", ["Float", "Bytes", "NumberedMap", "AnyKind", "TimeWithoutUnit", "TwoOneofs", "OneofWithoutRule", "SameTag"]
)
def test_a_type_without_json_form_is_refused_in_both_directions(name: str) -> None:
    message = getattr(mistakes, name).DESCRIPTOR
    for compile_ in (Codec().encoder, Codec().decoder):
        with pytest.raises(ValueError, match=f"mistakes.v1.{name}"):
            compile_(message)


@pytest.mark.parametrize(
    "name",
    [
        "LengthOfNumber",
        "RangeOfText",
        "ItemsOfText",
        "SameKeys",
        "SameKeyTwice",
        "BareOfTwoTexts",
        "BareOfTwoFields",
        "Flat",
        "ObjectOfTexts",
    ],
)
def test_a_rule_that_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"mistakes.v1.{name}|mistakes.v1.Part"):
        Codec().decoder(getattr(mistakes, name).DESCRIPTOR)


@pytest.mark.parametrize("name", ["FlatTwice", "FlatOptional", "FlatList", "ObjectOfTexts", "ObjectOfParts"])
def test_a_message_that_cannot_be_laid_out_as_declared_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"mistakes.v1.{name}"):
        Codec().encoder(getattr(mistakes, name).DESCRIPTOR)


def test_a_method_that_cannot_be_served_is_refused() -> None:
    services = mistakes.DESCRIPTOR.services_by_name
    with pytest.raises(ValueError, match="one HTTP binding a method"):
        routes([services["TwoPaths"]])
    (wrapped,) = load(routes([services["WrappedField"]])).values()
    with pytest.raises(ValueError, match="without wrap"):
        wrapped.encode(mistakes.Answer())
    (paged,) = load(routes([services["PagedWithoutFields"]])).values()
    with pytest.raises(ValueError, match="needs a proper field limit"):
        paged.compile()
    (taken,) = load(routes([services["TakesHttpBody"]])).values()
    with pytest.raises(ValueError, match="a request field is called http_body"):
        taken.decode(b"")
