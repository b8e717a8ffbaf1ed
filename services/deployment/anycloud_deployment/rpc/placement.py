"""The pool that work is to run on, and what a Pod gets there."""

from __future__ import annotations

from anycloud_deployment.domain import gpus
from anycloud_deployment.domain.admission import check_pool, no_such_pool
from anycloud_deployment.domain.model import Pool, Resources, Spec
from anycloud_deployment.domain.ports import Images, NodePools


async def pool(pools: NodePools, reference: str, what: str) -> Pool:
    """The running pool of that id or name. Raises Refusal; `what` is the noun for the work in it."""
    found = await pools.find(reference)
    if found is None:
        raise no_such_pool(reference)
    return check_pool(found, what)


async def resources(
    images: Images, pool: Pool, spec: Spec, kept_gpus: int | None, what: str = "Deployment"
) -> Resources:
    """What a Pod gets; GPUs that were admitted before stay unless they are to be resolved anew. Raises Refusal."""
    vm_type = gpus.capacity(pool, what)
    if kept_gpus is None:
        count = gpus.resolve(spec.options, vm_type)
    else:
        count = gpus.admitted(spec.options, vm_type, kept_gpus)
    if vm_type.accelerator == "nvidia":
        gpus.check_image_runtime(await images.runtime(spec.image), vm_type)
    return gpus.resources(spec.options, vm_type, count)
