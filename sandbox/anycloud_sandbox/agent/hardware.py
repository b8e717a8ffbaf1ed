"""What a machine of a VM type has, as a kubelet would report it."""

from __future__ import annotations

from collections.abc import Sequence

import anycloud_catalog

from anycloud_sandbox.state import Json

ACCELERATOR_LABEL = "anycloud.sh/accelerator"


def capacity(provider: str, vm_type: str, labels: Sequence[str]) -> Json:
    """GPUs are counted only on Nodes labelled for them, as the device plugin runs nowhere else."""
    known = anycloud_catalog.vm_type(provider, vm_type)
    cpus, memory, gpus = (known.vcpus, known.memory_mib, known.gpus) if known else (2, 4096, 0)
    has = {"cpu": str(cpus), "memory": f"{memory}Mi", "ephemeral-storage": "50Gi", "pods": "110"}
    labelled = any(text.startswith(ACCELERATOR_LABEL + "=") for text in labels)
    return {**has, "nvidia.com/gpu": str(gpus)} if labelled and gpus else has
