"""Regions, zones and VM types of the clouds, as data.

One JSON file beside this module, read once. It imports nothing beyond the standard library and starts in a few
milliseconds, because the CLI asks it at prompts. The catalog knows the common part of each cloud: a VM type that
it doesn't list may exist, so an unknown type is no error here, but its supply of CPUs, memory and GPUs is unknown.
"""

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

Arch = Literal["x86_64", "arm64"]
Accelerator = Literal["none", "nvidia", "other"]


class VmType(NamedTuple):
    """One VM type of one provider.

    `gpus` counts whole devices of one VM, as Kubernetes would show them; a fraction of a device counts as none.
    `accelerator` is "nvidia" only for whole NVIDIA devices: AMD, TPU and fractional types are "other".
    """

    provider: str
    name: str
    vcpus: int
    memory_mib: int
    arch: Arch
    accelerator: Accelerator
    gpus: int
    regions: tuple[str, ...]


class _Provider(NamedTuple):
    regions: dict[str, tuple[str, ...]]
    vm_types: dict[str, VmType]


def _vm_type(provider: str, row: dict[str, Any], everywhere: tuple[str, ...]) -> VmType:
    return VmType(
        provider=provider,
        name=row["name"],
        vcpus=row["vcpus"],
        memory_mib=row["memoryMib"],
        arch=cast(Arch, row["arch"]),
        accelerator=cast(Accelerator, row["accelerator"]),
        gpus=row["gpus"],
        regions=tuple(row.get("regions", everywhere)),
    )


def _provider(name: str, data: dict[str, Any]) -> _Provider:
    regions = {region: tuple(zones) for region, zones in data["regions"].items()}
    everywhere = tuple(regions)
    types = (_vm_type(name, row, everywhere) for row in data["vmTypes"])
    return _Provider(regions, {vm_type.name: vm_type for vm_type in types})


_DATA = json.loads(Path(__file__).with_name("catalog.json").read_bytes())
_PROVIDERS = {name: _provider(name, data) for name, data in _DATA["providers"].items()}

VERSION: str = _DATA["version"]
"""Version of the data, shown by `api status`."""

PROVIDERS: tuple[str, ...] = tuple(_PROVIDERS)
"""The clouds that sell VMs for clusters and node pools, in the contract's spelling."""


def regions(provider: str) -> tuple[str, ...]:
    """Regions of a provider, sorted; empty for a provider that the catalog doesn't hold."""
    known = _PROVIDERS.get(provider)
    return tuple(known.regions) if known else ()


def zones(provider: str, region: str) -> tuple[str, ...]:
    """Zones of a region, sorted; empty where the region has none or is unknown."""
    known = _PROVIDERS.get(provider)
    return known.regions.get(region, ()) if known else ()


def vm_type(provider: str, name: str) -> VmType | None:
    """The VM type of that exact name, or None when the catalog doesn't hold it."""
    known = _PROVIDERS.get(provider)
    return known.vm_types.get(name) if known else None


def vm_types(provider: str) -> tuple[VmType, ...]:
    """All VM types of a provider, in the order of the data file: CPU first, then accelerators."""
    known = _PROVIDERS.get(provider)
    return tuple(known.vm_types.values()) if known else ()


def regions_with(provider: str, vm_type_name: str) -> tuple[str, ...]:
    """Regions in which a VM type is sold; empty when the type is unknown."""
    found = vm_type(provider, vm_type_name)
    return found.regions if found else ()


def check_zone(provider: str, region: str | None, zone: str | None) -> str | None:
    """What is wrong with a zone, as one sentence, or None. No zone is always right.

    A zone has to belong to its region by name on AWS and GCP, is a single digit on Azure, and exists nowhere else.
    """
    if not zone:
        return None
    if provider not in _PROVIDERS:
        return f"{provider} has no zones: leave --zone out."
    if not region:
        return f"Zone {zone} needs a region: give --region as well."
    if provider == "Azure":
        return None if re.fullmatch("[0-9]", zone) else f"Zone {zone} is not an Azure zone, which is a single digit."
    shape = "{}[a-z]" if provider == "AWS" else "{}-[a-z]"
    if re.fullmatch(shape.format(re.escape(region)), zone):
        return None
    return f"Zone {zone} does not belong to region {region} of {provider}."


def check_place(provider: str, region: str, zone: str | None, vm_type_name: str) -> str | None:
    """What speaks against buying a VM of that type there, as one sentence, or None.

    Refuses providers without isolated networks for VMs, unknown regions and zones, VM types that the region doesn't
    sell, and VM types that aren't x86_64. A VM type that the catalog doesn't hold passes: the VM checks itself.
    """
    if provider not in _PROVIDERS:
        return f"{provider} is not supported here: use a credential of {', '.join(PROVIDERS[:-1])} or {PROVIDERS[-1]}."
    if region not in regions(provider):
        return f"Region {region} is not a region of {provider} in catalog {VERSION}."
    return check_zone(provider, region, zone) or _check_offer(provider, region, zone, vm_type_name)


def _check_offer(provider: str, region: str, zone: str | None, vm_type_name: str) -> str | None:
    if zone and zone not in zones(provider, region):
        return f"Region {region} of {provider} has no zone {zone}."
    found = vm_type(provider, vm_type_name)
    if found is None:
        return None
    if found.arch != "x86_64":
        return f"VM type {vm_type_name} is {found.arch}; only x86_64 is supported."
    if region not in found.regions:
        return f"VM type {vm_type_name} is not sold in region {region} of {provider}."
    return None
