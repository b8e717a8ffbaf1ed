"""What a replica gets of a VM: GPUs, CPU and memory, resolved against the VM type of its pool."""

from __future__ import annotations

import re

import anycloud_catalog
from anycloud_catalog import VmType

from anycloud_deployment.domain import quantities
from anycloud_deployment.domain.model import DockerOptions, Pool, Resources
from anycloud_deployment.domain.refusal import invalid

_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_MIB = 1 << 20
# Without an option on a CPU pool: requests only, so that small Deployments share a VM.
_CPU_POOL_MILLIS = 100
_CPU_POOL_MEMORY = 128 * _MIB


def capacity(pool: Pool, work: str = "Deployment") -> VmType:
    """The VM type of a pool, if its supply is known to be CPU or NVIDIA GPUs. Raises Refusal; `work` is the noun in
    it."""
    found = anycloud_catalog.vm_type(pool.provider, pool.vm_type)
    needs = f"a {work} needs verified CPU or NVIDIA capacity"
    what = f"VM type {pool.vm_type} of {pool.provider}"
    if found is None:
        raise invalid(f"{what} isn't in the catalog, so its CPU and GPU supply is unknown; {needs}.")
    if found.accelerator == "other":
        raise invalid(f"{what} has accelerators that aren't whole NVIDIA GPUs; {needs}.")
    return found


def resolve(options: DockerOptions, vm_type: VmType) -> int:
    """GPUs of one replica, by the options and the defaults. Raises Refusal."""
    wanted = _wanted(options.gpus)
    if vm_type.accelerator == "none":
        if wanted is not None:
            raise invalid(f"dockerOptions.gpus is {options.gpus}, but VM type {vm_type.name} has no NVIDIA GPUs.")
        check_runtime(options, vm_type, 0)
        return 0
    count = vm_type.gpus if wanted is None or wanted == "all" else int(wanted)
    return admitted(options, vm_type, count)


def admitted(options: DockerOptions, vm_type: VmType, count: int) -> int:
    """`count` itself, if a VM of that type still has so many GPUs for these options. Raises Refusal."""
    supply = vm_type.gpus if vm_type.accelerator == "nvidia" else 0
    if count > supply:
        raise invalid(f"{count} GPUs are wanted for a replica, but a VM of type {vm_type.name} has {supply}.")
    check_runtime(options, vm_type, count)
    return count


def check_runtime(options: DockerOptions, vm_type: VmType, count: int) -> None:
    """Raises Refusal when the runtime asked for can't be had with so many GPUs."""
    if options.runtime == "nvidia" and vm_type.accelerator != "nvidia":
        raise invalid(f"dockerOptions.runtime is nvidia, but VM type {vm_type.name} has no NVIDIA GPUs.")
    if options.runtime == "runc" and count > 0:
        raise invalid("dockerOptions.runtime is runc, but GPUs reach a container through the nvidia runtime only.")


def resources(options: DockerOptions, vm_type: VmType, gpus: int) -> Resources:
    """CPU and memory beside that many GPUs: as given, or 90% of the GPUs' share of the VM, or a CPU pool's default."""
    cpu, memory = _CPU_POOL_MILLIS, _CPU_POOL_MEMORY
    if gpus:
        cpu = vm_type.vcpus * 1000 * gpus * 9 // (vm_type.gpus * 10)
        memory = vm_type.memory_mib * gpus * 9 // (vm_type.gpus * 10) * _MIB
    cpu_given, memory_given = options.cpus is not None, options.memory is not None
    return Resources(
        gpus=gpus,
        cpu_millis=quantities.cpu_millis(options.cpus) if options.cpus is not None else cpu,
        cpu_limited=cpu_given,
        memory_bytes=quantities.size_bytes("memory", options.memory) if options.memory is not None else memory,
        memory_limited=memory_given or gpus > 0,
    )


def check_image_runtime(runtime: str | None, vm_type: VmType) -> None:
    """Raises Refusal for an image that says it is made for other accelerators. Silence of an image proves nothing."""
    if runtime == "rocm" and vm_type.accelerator == "nvidia":
        raise invalid(f"The image is made for AMD GPUs (ROCm), but VM type {vm_type.name} has NVIDIA ones.")


def _wanted(gpus: str | None) -> str | None:
    if gpus is None or gpus == "all" or _COUNT.fullmatch(gpus):
        return gpus
    raise invalid(f"dockerOptions.gpus is {gpus[:40]!r}; it must be `all` or a positive whole number.")
