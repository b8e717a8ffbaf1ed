"""The catalog's rules about places, and its data against itself."""

import json
import subprocess
import sys
from pathlib import Path

import anycloud_catalog as catalog
import pytest


@pytest.mark.req("NP-009", "OPEN-010")
@pytest.mark.parametrize(
    ("provider", "region", "zone"),
    [
        ("AWS", "us-east-1", "eu-west-1a"),
        ("AWS", "us-east-1", "us-east-1"),
        ("AWS", "us-east-1", "us-east-1ab"),
        ("AWS", "us-east-1", "us-east-11a"),
        ("AWS", "us-east-1", "us-east-1-a"),
        ("GCP", "us-central1", "us-central1a"),
        ("GCP", "us-central1", "us-east1-b"),
        ("GCP", "us-central1", "us-central1-a\n"),
    ],
)
def test_a_zone_of_another_region_is_refused(provider: str, region: str, zone: str) -> None:
    problem = catalog.check_zone(provider, region, zone)
    assert problem is not None
    assert zone in problem
    assert region in problem


@pytest.mark.req("NP-009", "OPEN-010")
@pytest.mark.parametrize(
    ("provider", "region", "zone"),
    [("AWS", "us-east-1", "us-east-1a"), ("GCP", "us-central1", "us-central1-a"), ("AWS", "us-east-1", None)],
)
def test_a_zone_of_its_region_or_no_zone_passes(provider: str, region: str, zone: str | None) -> None:
    assert catalog.check_zone(provider, region, zone) is None


@pytest.mark.req("NP-010", "OPEN-010")
@pytest.mark.parametrize(("zone", "fine"), [("1", True), ("3", True), ("eastus-1", False), ("12", False), ("a", False)])
def test_an_azure_zone_is_a_single_digit(zone: str, fine: bool) -> None:
    assert (catalog.check_zone("Azure", "eastus", zone) is None) is fine


@pytest.mark.req("NP-011", "OPEN-010")
def test_other_providers_accept_no_zone_and_are_named() -> None:
    problem = catalog.check_zone("Lambda", "us-east-1", "us-east-1a")
    assert problem is not None
    assert "Lambda" in problem
    assert catalog.check_zone("Lambda", "us-east-1", None) is None


def test_a_zone_without_a_region_is_refused_naming_region() -> None:
    problem = catalog.check_zone("AWS", None, "us-east-1a")
    assert problem is not None
    assert "--region" in problem


def test_a_provider_without_isolated_networks_is_refused_by_name() -> None:
    problem = catalog.check_place("Lambda", "us-east-1", None, "gpu_1x_a10")
    assert problem is not None
    assert "Lambda" in problem
    assert catalog.PROVIDERS == ("AWS", "GCP", "Azure")


@pytest.mark.parametrize(
    ("provider", "region", "name"),
    [
        ("AWS", "us-east-1", "t4g.medium"),
        ("GCP", "us-central1", "t2a-standard-2"),
        ("Azure", "eastus", "Standard_D2ps_v5"),
    ],
)
def test_a_vm_type_that_is_not_x86_64_is_refused(provider: str, region: str, name: str) -> None:
    problem = catalog.check_place(provider, region, None, name)
    assert problem is not None
    assert "arm64" in problem


def test_a_vm_type_is_refused_where_it_is_not_sold() -> None:
    problem = catalog.check_place("AWS", "sa-east-1", None, "p4d.24xlarge")
    assert problem is not None
    assert "sa-east-1" in problem
    assert catalog.check_place("AWS", "us-east-1", "us-east-1a", "p4d.24xlarge") is None


def test_unknown_regions_and_zones_are_refused_and_unknown_vm_types_pass() -> None:
    assert catalog.check_place("AWS", "us-middle-1", None, "t3.medium") is not None
    assert catalog.check_place("AWS", "us-west-1", "us-west-1z", "t3.medium") is not None
    assert catalog.check_place("AWS", "us-east-1", None, "z9.new") is None
    assert catalog.vm_type("AWS", "z9.new") is None


def test_regions_with_a_type_are_those_that_sell_it() -> None:
    assert catalog.regions_with("AWS", "p5.48xlarge") == ("ap-northeast-1", "us-east-1", "us-east-2", "us-west-2")
    assert catalog.regions_with("AWS", "t3.medium") == catalog.regions("AWS")
    assert catalog.regions_with("AWS", "z9.new") == ()


@pytest.mark.parametrize(
    ("provider", "name", "gpus"),
    [
        ("AWS", "g4dn.xlarge", 1),
        ("AWS", "g5.12xlarge", 4),
        ("AWS", "p4d.24xlarge", 8),
        ("GCP", "g2-standard-4", 1),
        ("GCP", "a2-highgpu-1g", 1),
        ("Azure", "Standard_NC4as_T4_v3", 1),
    ],
)
def test_gpus_are_whole_nvidia_devices_of_one_vm(provider: str, name: str, gpus: int) -> None:
    found = catalog.vm_type(provider, name)
    assert found is not None
    assert (found.accelerator, found.gpus) == ("nvidia", gpus)


@pytest.mark.parametrize("name", ["Standard_NV6ads_A10_v5", "Standard_NV4as_v4"])
def test_fractional_and_amd_types_are_not_nvidia(name: str) -> None:
    found = catalog.vm_type("Azure", name)
    assert found is not None
    assert found.accelerator == "other"


@pytest.mark.parametrize("provider", catalog.PROVIDERS)
def test_data_is_consistent(provider: str) -> None:
    types = catalog.vm_types(provider)
    assert len({vm_type.name for vm_type in types}) == len(types) >= 20
    assert len(catalog.regions(provider)) >= 8
    for region in catalog.regions(provider):
        for zone in catalog.zones(provider, region):
            assert catalog.check_zone(provider, region, zone) is None
    for vm_type in types:
        assert set(vm_type.regions) <= set(catalog.regions(provider))
        assert vm_type.vcpus > 0
        assert vm_type.memory_mib >= 1024
        assert (vm_type.gpus > 0) == (vm_type.accelerator == "nvidia") or vm_type.accelerator == "other"


def test_names_in_the_file_are_not_repeated() -> None:
    data = json.loads(Path(catalog.__file__).with_name("catalog.json").read_text())
    for provider in data["providers"].values():
        names = [row["name"] for row in provider["vmTypes"]]
        assert len(names) == len(set(names))


def test_importing_the_catalog_is_cheap_and_loads_the_standard_library_only() -> None:
    program = (
        "import json, pathlib, re, sys, time, typing\n"
        "before = set(sys.modules); start = time.process_time()\n"
        "import anycloud_catalog\n"
        "spent = time.process_time() - start\n"
        "print(json.dumps([spent, sorted(set(sys.modules) - before)]))"
    )
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", program])) for _ in range(3)]
    assert runs[0][1] == ["anycloud_catalog"]
    assert min(spent for spent, _ in runs) < 0.010
