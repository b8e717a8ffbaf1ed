"""Whether a pool can take work now, as far as its facts tell; its holds decide."""

from __future__ import annotations

from anycloud_deployment.domain.model import Pool
from anycloud_deployment.domain.refusal import Refusal, conflict, not_found

RUNNING = "running"


def no_such_pool(reference: str) -> Refusal:
    """The same answer whether a pool doesn't exist or isn't for the caller."""
    return not_found(f"Node pool {reference} doesn't exist, or you have no access to it.")


def check_pool(pool: Pool, what: str = "Deployment") -> Pool:
    """The pool itself. Raises Refusal that names its state; `what` is the noun for the work in it."""
    if pool.state != RUNNING:
        raise conflict(f"Node pool {pool.name} is {pool.state}; a {what} needs a running one.")
    if pool.ready_nodes < 1:
        raise conflict(f"Node pool {pool.name} is running, but none of its Nodes is ready; try again when one is.")
    return pool
