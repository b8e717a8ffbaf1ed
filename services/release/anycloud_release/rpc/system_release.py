"""The API's own release, as its users see it."""

from __future__ import annotations

from typing import Any, Final

from anycloud_common.errors import ApiError
from anycloud_common.store import Store
from anycloudapi.release.v1 import release_pb2, release_pb2_grpc

from anycloud_release.domain.ports import Rollout, Rollouts, RolloutUnknown
from anycloud_release.domain.revisions import Revision, State
from anycloud_release.rpc.targets import Targets
from anycloud_release.store import revisions, stamp

_STATES: Final = {
    State.STARTING: release_pb2.ReleaseStatus.Upgrade.STATE_STARTING,
    State.RUNNING: release_pb2.ReleaseStatus.Upgrade.STATE_RUNNING,
    State.FAILED: release_pb2.ReleaseStatus.Upgrade.STATE_FAILED,
}


class SystemReleaseServicer(release_pb2_grpc.SystemReleaseServicer):
    """`targets` None: an installer, which no request upgrades."""

    def __init__(self, store: Store, rollouts: Rollouts, served_version: str, targets: Targets | None) -> None:
        self._store = store
        self._rollouts = rollouts
        self._served_version = served_version
        self._targets = targets

    async def GetSystemRelease(
        self, request: release_pb2.GetSystemReleaseRequest, context: Any
    ) -> release_pb2.ReleaseStatus:
        stamped, newest = await self._store.read(lambda conn: (stamp.read(conn), revisions.newest(conn)))
        try:
            rollout = await self._rollouts.read()
        except RolloutUnknown as e:
            raise ApiError("SYSTEM_RELEASE_UNAVAILABLE", str(e)) from e
        return release_pb2.ReleaseStatus(
            served_version=self._served_version,
            schema_version=None if stamped is None else str(stamped.schema_version),
            upgrade=_upgrade(newest),
            rollout=_rollout(rollout),
        )

    async def RequestSystemRelease(
        self, request: release_pb2.RequestSystemReleaseRequest, context: Any
    ) -> release_pb2.RequestSystemReleaseResponse:
        if self._targets is None:
            raise ApiError(
                "SYSTEM_RELEASE_REFUSED",
                "This API is the local one, which isn't moved by a request; choose the hosted one with "
                "`anycloud api use <url>`.",
            )
        await self._targets.judge(request.target.image)
        newest = await self._store.read(revisions.newest)
        return release_pb2.RequestSystemReleaseResponse(unchanged=True, upgrade=_upgrade(newest))


def _upgrade(revision: Revision | None) -> release_pb2.ReleaseStatus.Upgrade | None:
    if revision is None or revision.upgrade_number is None:
        return None
    return release_pb2.ReleaseStatus.Upgrade(
        number=revision.upgrade_number,
        state=_STATES[revision.state],
        api_version=revision.api_version,
        api_image=revision.api_image,
        last_error=revision.last_error,
        created_at=revision.created_at,
        updated_at=revision.updated_at,
    )


def _rollout(rollout: Rollout | None) -> release_pb2.ReleaseStatus.Rollout | None:
    if rollout is None:
        return None
    condition = release_pb2.ReleaseStatus.Condition
    return release_pb2.ReleaseStatus.Rollout(
        replicas=rollout.replicas,
        ready_replicas=rollout.ready_replicas,
        updated_replicas=rollout.updated_replicas,
        observed_generation=rollout.observed_generation,
        conditions=[
            condition(type=c.type, status=c.status, reason=c.reason, message=c.message) for c in rollout.conditions
        ],
    )
