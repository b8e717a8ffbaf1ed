"""The product's own protos, as the codec and the gateway take them."""

from __future__ import annotations

import importlib
import pkgutil

import anycloudapi
import pytest
from anycloud_common.rest import Binding, Codec, load, routes
from anycloudapi.common.v1 import errors_pb2

MODULES = [m.name for m in pkgutil.walk_packages(anycloudapi.__path__, "anycloudapi.") if m.name.endswith("_pb2")]
SERVICES = [s for name in MODULES for s in importlib.import_module(name).DESCRIPTOR.services_by_name.values()]
BINDINGS = load(routes(SERVICES), Codec())
CODES = {value.name.removeprefix("ERROR_CODE_") for value in errors_pb2.ErrorCode.DESCRIPTOR.values}


@pytest.mark.parametrize("binding", [pytest.param(binding, id=path) for path, binding in BINDINGS.items()])
def test_every_route_of_the_api_can_be_served(binding: Binding) -> None:
    binding.compile()


def test_no_two_routes_share_verb_and_path() -> None:
    taken = [(b.route.verb, b.route.path) for b in BINDINGS.values()]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("binding", [pytest.param(binding, id=path) for path, binding in BINDINGS.items()])
def test_every_declared_error_exists(binding: Binding) -> None:
    route = binding.route
    assert {*route.errors, *filter(None, (route.invalid, route.unavailable))} <= CODES
