"""Secrets, as gRPC. No answer, event or error has a value in it."""

from __future__ import annotations

from functools import partial
from typing import Any

import grpc
from anycloud_common.errors import ApiError
from anycloud_common.rest import Invalid
from anycloud_common.store import Store, Tx
from anycloudapi.common.v1 import errors_pb2
from anycloudapi.deployment.v1 import secrets_pb2 as pb
from anycloudapi.deployment.v1.secrets_pb2_grpc import SecretsServicer
from google.protobuf.empty_pb2 import Empty

from anycloud_deployment.domain.environment import problem_with
from anycloud_deployment.domain.ports import Wakes
from anycloud_deployment.domain.spec import SECRET_NAME
from anycloud_deployment.rpc.refusals import actor
from anycloud_deployment.store import events, image_jobs, revisions
from anycloud_deployment.store import secrets as stored
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.secrets import Secrets

Context = grpc.aio.ServicerContext[Any, Any]

SAVED = "saved"
DELETED = "deleted"
_NAME_RULE = "must be 1 to 64 letters, digits, _ and -, starting with a letter"


class SecretsService(SecretsServicer):
    def __init__(self, store: Store, secrets: Secrets, wakes: Wakes) -> None:
        self._store = store
        self._secrets = secrets
        self._wakes = wakes

    async def ListSecrets(self, request: pb.ListSecretsRequest, context: Context) -> pb.ListSecretsResponse:
        found = await self._store.read(stored.saved)
        return pb.ListSecretsResponse(
            secrets=[pb.Secret(name=one.name, created_at=one.created_at, updated_at=one.updated_at) for one in found]
        )

    async def SaveSecret(self, request: pb.SaveSecretRequest, context: Context) -> Empty:
        if not SECRET_NAME.fullmatch(request.name):
            raise Invalid(_NAME_RULE, "name", value=request.name)
        values = dict(request.secret.values)
        problem = problem_with(values, "values")
        if problem is not None:
            field, _, rule = problem.partition(": ")
            raise Invalid(rule, field)
        await self._store.write(partial(self._save, request.name, values, actor()))
        return Empty()

    async def DeleteSecret(self, request: pb.DeleteSecretRequest, context: Context) -> Empty:
        await self._store.write(partial(self._delete, request.name, request.force, actor()))
        return Empty()

    def _save(self, name: str, values: dict[str, str], by: Actor, tx: Tx) -> None:
        secret_id = self._secrets.save(tx, name, values)
        events.append(tx, stored.KIND, secret_id, SAVED, by, name=name, keys=sorted(values))
        for deployment_id in revisions.users_of(tx.conn, name):
            tx.after_commit(partial(self._wakes.deployment, deployment_id))
        for run in image_jobs.runs_of(tx.conn, image_jobs.users_of(tx.conn, name)):
            tx.after_commit(partial(self._wakes.image_job, run))

    def _delete(self, name: str, force: bool, by: Actor, tx: Tx) -> None:
        homes = revisions.users_of(tx.conn, name)
        users = homes + image_jobs.users_of(tx.conn, name)
        if users and not force:
            data = errors_pb2.SecretInUseData(name=stored.spelling(tx.conn, name), workload_ids=users)
            raise ApiError("SECRET_IN_USE", f"Secret {name} is used by {', '.join(users)}.", data)
        secret_id = stored.remove(tx, name)
        if secret_id is not None:
            events.append(tx, stored.KIND, secret_id, DELETED, by, name=name, force=force)
            for deployment_id in homes:
                tx.after_commit(partial(self._wakes.deployment, deployment_id))
