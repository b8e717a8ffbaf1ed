"""What a replica gets of a VM."""

from __future__ import annotations

import anycloud_catalog
import pytest
from anycloud_catalog import VmType
from anycloud_deployment.domain import gpus
from anycloud_deployment.domain.model import DockerOptions, Pool, Resources
from anycloud_deployment.domain.refusal import Refusal

CPU = VmType("AWS", "cpu", 4, 16384, "x86_64", "none", 0, ())
NVIDIA = VmType("AWS", "gpu", 96, 1_179_648, "x86_64", "nvidia", 8, ())
GIB = 1 << 30
MIB = 1 << 20


def options(**given: str) -> DockerOptions:
    return DockerOptions(**given)  # type: ignore[arg-type]


def pool(provider: str, vm_type: str) -> Pool:
    return Pool("np-1", "pool", "cl-1", "running", provider, vm_type, 1)


@pytest.mark.req("DP-034", "DP-035", "DP-036", "DP-037", "DP-039", "DP-043", "DP-046", "DP-047")
@pytest.mark.parametrize(
    ("vm_type", "given", "count"),
    [
        (NVIDIA, {}, 8),
        (NVIDIA, {"gpus": "all"}, 8),
        (NVIDIA, {"gpus": "1"}, 1),
        (NVIDIA, {"gpus": "8"}, 8),
        (NVIDIA, {"gpus": "2", "runtime": "nvidia"}, 2),
        (NVIDIA, {"runtime": "nvidia"}, 8),
        (CPU, {}, 0),
        (CPU, {"runtime": "runc"}, 0),
    ],
)
def test_the_vm_type_decides_what_a_request_means(vm_type: VmType, given: dict[str, str], count: int) -> None:
    assert gpus.resolve(options(**given), vm_type) == count


@pytest.mark.req("DP-037", "DP-038", "DP-040", "DP-048", "OPEN-058", "AD-041")
@pytest.mark.parametrize(
    ("vm_type", "given", "rule"),
    [
        (NVIDIA, {"gpus": "9"}, "9 GPUs are wanted for a replica, but a VM of type gpu has 8"),
        (NVIDIA, {"gpus": "0"}, "must be `all` or a positive whole number"),
        (NVIDIA, {"gpus": "-1"}, "positive whole number"),
        (NVIDIA, {"gpus": "1.5"}, "positive whole number"),
        (NVIDIA, {"gpus": "two"}, "positive whole number"),
        (NVIDIA, {"gpus": "01"}, "positive whole number"),
        (NVIDIA, {"gpus": "ALL"}, "positive whole number"),
        (NVIDIA, {"runtime": "runc"}, "through the nvidia runtime only"),
        (NVIDIA, {"gpus": "1", "runtime": "runc"}, "through the nvidia runtime only"),
        (CPU, {"gpus": "all"}, "has no NVIDIA GPUs"),
        (CPU, {"gpus": "1"}, "has no NVIDIA GPUs"),
        (CPU, {"gpus": "0"}, "positive whole number"),
        (CPU, {"runtime": "nvidia"}, "has no NVIDIA GPUs"),
    ],
)
def test_what_a_vm_type_does_not_have_is_refused(vm_type: VmType, given: dict[str, str], rule: str) -> None:
    with pytest.raises(Refusal, match=rule):
        gpus.resolve(options(**given), vm_type)


@pytest.mark.req("DP-041")
def test_unknown_supply_and_other_accelerators_are_refused_without_any_gpu_option() -> None:
    with pytest.raises(Refusal, match="isn't in the catalog"):
        gpus.capacity(pool("AWS", "nosuch.large"))
    other = next(one for one in anycloud_catalog.vm_types("AWS") if one.accelerator == "other")
    with pytest.raises(Refusal, match="aren't whole NVIDIA GPUs"):
        gpus.capacity(pool("AWS", other.name))


@pytest.mark.req("DP-123", "DP-124")
def test_an_admitted_count_stays_when_the_catalog_grows_and_is_refused_when_it_shrinks() -> None:
    grown = NVIDIA._replace(gpus=16)
    assert gpus.admitted(options(), grown, 8) == 8
    with pytest.raises(Refusal, match="has 4"):
        gpus.admitted(options(), NVIDIA._replace(gpus=4), 8)
    with pytest.raises(Refusal, match="has 0"):
        gpus.admitted(options(), CPU, 1)


@pytest.mark.req("DP-009", "DP-010", "OPEN-056", "OPEN-057")
def test_without_options_a_gpu_replica_gets_nine_tenths_of_its_share() -> None:
    found = gpus.resources(options(), NVIDIA, 2)
    assert found == Resources(
        gpus=2,
        cpu_millis=21_600,
        cpu_limited=False,
        memory_bytes=1_179_648 * 2 * 9 // 80 * MIB,
        memory_limited=True,
    )


@pytest.mark.req("OPEN-056")
def test_shares_are_rounded_down() -> None:
    odd = NVIDIA._replace(vcpus=7, memory_mib=1001, gpus=3)
    found = gpus.resources(options(), odd, 1)
    assert (found.cpu_millis, found.memory_bytes) == (2100, 300 * MIB)


@pytest.mark.req("DP-011", "DP-012", "OPEN-057")
def test_without_options_a_cpu_replica_requests_little_and_has_no_limit() -> None:
    assert gpus.resources(options(), CPU, 0) == Resources(0, 100, False, 128 * MIB, False)


@pytest.mark.req("DP-008", "DP-013")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"cpus": "2"}, Resources(0, 2000, True, 128 * MIB, False)),
        ({"memory": "1g"}, Resources(0, 100, False, GIB, True)),
        ({"cpus": "2", "memory": "1g"}, Resources(0, 2000, True, GIB, True)),
    ],
)
def test_what_is_given_is_request_and_limit_and_the_other_default_stays(
    given: dict[str, str], found: Resources
) -> None:
    assert gpus.resources(options(**given), CPU, 0) == found


@pytest.mark.req("DP-042", "DP-049")
def test_only_an_image_for_other_accelerators_is_refused() -> None:
    gpus.check_image_runtime("cuda", CPU)
    gpus.check_image_runtime("rocm", CPU)
    gpus.check_image_runtime("cuda", NVIDIA)
    gpus.check_image_runtime(None, NVIDIA)
    with pytest.raises(Refusal, match="ROCm"):
        gpus.check_image_runtime("rocm", NVIDIA)
