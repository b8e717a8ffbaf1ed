from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import anycloudapi
import pytest
from anycloud_common.server.policy import policy_of
from google.protobuf import descriptor_pool

from tests.unit.server import probe_api


def method(full_name: str) -> Any:
    service, _, name = full_name.rpartition(".")
    return descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


@pytest.mark.parametrize(
    ("name", "access"),
    [
        ("anycloudapi.probe.v1.Things.GetThing", "user"),
        ("anycloudapi.probe.v1.Work.Next", "workload"),
        ("anycloudapi.probe.v1.SignIn.Exchange", "sign-in"),
        ("anycloudapi.probe.internal.v1.Siblings.Ask", "internal"),
    ],
)
def test_access_comes_from_the_method_and_from_the_package(name: str, access: str) -> None:
    assert policy_of(method(name)).access == access


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("anycloudapi.probe.v1.Things.GetThing", "CLUSTER_UNAVAILABLE"),
        ("anycloudapi.probe.v1.Things.ListThings", "API_RESTARTING"),
        ("anycloudapi.probe.v1.Work.Next", "WORKLOAD_UNAVAILABLE"),
    ],
)
def test_a_busy_store_has_the_code_that_the_method_names_or_its_class(name: str, code: str) -> None:
    assert policy_of(method(name)).unavailable == code


def test_a_method_declares_its_own_codes_and_those_of_its_class() -> None:
    declares = policy_of(method("anycloudapi.probe.v1.Things.GetThing")).declares
    assert declares is not None
    assert {"CLUSTER_NOT_FOUND", "UNAUTHORIZED"} <= declares
    assert "WORKLOAD_UNAUTHORIZED" not in declares
    assert policy_of(method("anycloudapi.probe.internal.v1.Siblings.Ask")).declares is None


def changed(**rule: Any) -> Any:
    """The probe's GetThing with other options, from a pool of its own."""
    from anycloudapi.rest.v1 import options_pb2
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(probe_api.API_PB.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        if file.package == "anycloudapi.probe.v1":
            options = file.service[0].method[0].options
            options.Extensions[options_pb2.method].CopyFrom(options_pb2.MethodRule(**rule))
        pool.Add(file)
    return pool.FindServiceByName("anycloudapi.probe.v1.Things").methods_by_name["GetThing"]


@pytest.mark.parametrize(
    "rule",
    [
        {"errors": ["NO_SUCH_ERROR"]},
        {"invalid": "CLUSTER_INVALID"},
        {"unavailable": "CLUSTER_UNAVAILABLE"},
        {"invalid": "CREDENTIAL_UPDATE_INVALID", "errors": ["CREDENTIAL_UPDATE_INVALID"]},
    ],
    ids=["unknown code", "invalid not declared", "unavailable not declared", "invalid needs data"],
)
def test_options_that_contradict_each_other_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Things/GetThing"):
        policy_of(changed(**rule))


def test_every_method_of_the_api_has_a_sound_policy() -> None:
    modules = [m.name for m in pkgutil.walk_packages(anycloudapi.__path__, "anycloudapi.") if m.name.endswith("_pb2")]
    services = [s for name in modules for s in importlib.import_module(name).DESCRIPTOR.services_by_name.values()]
    policies = [policy_of(method) for service in services for method in service.methods]
    assert len(policies) > 40
