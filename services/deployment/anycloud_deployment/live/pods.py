"""Which Pods may take new Jobs now."""

from __future__ import annotations

from anycloud_deployment.domain.jobs import Worker, stale
from anycloud_deployment.domain.ports import View
from anycloud_deployment.domain.refusal import Refusal


class Pods:
    def __init__(self, view: View) -> None:
        self._view = view

    def check_synced(self) -> None:
        """Raises Refusal WORKLOAD_UNAVAILABLE while nothing is known for sure about Pods."""
        if not self._view.synced:
            text = "The Pods of the cluster can't be seen right now; try again in a moment."
            raise Refusal("WORKLOAD_UNAVAILABLE", text)

    def claimant(self, pod_uid: str) -> Worker | Refusal:
        """The Pod as a worker, or why it gets no new Job."""
        try:
            self.check_synced()
        except Refusal as refusal:
            return refusal
        return self.worker(pod_uid) or stale("The Pod isn't ready for new Jobs.")

    def worker(self, pod_uid: str) -> Worker | None:
        """The Pod as a worker, or None while it is gone, being deleted, not ready, or not seen completely yet."""
        pod = self._view.pod(pod_uid) if self._view.synced else None
        if pod is None or pod.deleting or not pod.ready or pod.generation is None or pod.node is None:
            return None
        node = self._view.node(pod.node)
        if node is None:
            return None
        return Worker(pod.uid, pod.name, pod.generation, node.name, node.uid, node.attempt, pod.restarts)
