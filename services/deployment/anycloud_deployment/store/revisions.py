"""Stored revisions, and which Secrets they name. The environment's values are sealed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from anycloud_common.cipher import Cipher
from anycloud_common.store import Tx
from sqlalchemy import Connection, bindparam, delete, insert, select

from anycloud_deployment.domain.model import Revision
from anycloud_deployment.store import rows
from anycloud_deployment.store.tables import admissions, references, revisions

_REVISION = select(revisions).where(
    revisions.c.deployment_id == bindparam("deployment_id"), revisions.c.generation == bindparam("generation")
)


class Revisions:
    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def add(self, tx: Tx, deployment_id: str, revision: Revision) -> None:
        """A new revision, with its references to Secrets."""
        env = json.dumps(dict(revision.spec.env)).encode()
        tx.conn.execute(
            insert(revisions).values(
                deployment_id=deployment_id,
                generation=revision.generation,
                settings=rows.settings(revision.spec),
                env=self._cipher.seal(env, revisions.name, "env", _place(deployment_id, revision.generation)),
                resources=json.dumps(dataclasses.asdict(revision.resources)),
                admission_id=revision.admission_id,
                created_at=revision.created_at,
            )
        )
        refer(tx, deployment_id, revision.generation, revision.spec.secrets)

    def get(self, conn: Connection, deployment_id: str, generation: int) -> Revision:
        """Raises LookupError for one that doesn't exist."""
        row = conn.execute(_REVISION, {"deployment_id": deployment_id, "generation": generation}).first()
        if row is None:
            raise LookupError(f"revision {generation} of {deployment_id}")
        env = self._cipher.open(row.env, revisions.name, "env", _place(deployment_id, generation))
        return Revision(
            generation=generation,
            spec=rows.spec(row.settings, json.loads(env)),
            resources=rows.resources(row.resources),
            admission_id=row.admission_id,
            created_at=row.created_at,
        )


def superseded_admissions(conn: Connection, deployment_id: str, generation: int) -> list[str]:
    """Admitted admissions of a Deployment on which that revision doesn't stand."""
    current = select(revisions.c.admission_id).where(
        revisions.c.deployment_id == deployment_id, revisions.c.generation == generation
    )
    others = select(admissions.c.id).where(
        admissions.c.owner_id == deployment_id,
        admissions.c.state == "admitted",
        admissions.c.id.not_in(current),
    )
    return list(conn.execute(others).scalars())


def refer(tx: Tx, deployment_id: str, generation: int, names: Sequence[str]) -> None:
    """Stores which Secrets a revision names."""
    if names:
        values = [
            {"name_key": name.lower(), "deployment_id": deployment_id, "generation": generation} for name in names
        ]
        tx.conn.execute(insert(references), values)


def drop_references(tx: Tx, deployment_id: str, before: int | None = None) -> None:
    """Of revisions that can't be applied any more: those before one, or all of a deleted Deployment."""
    statement = delete(references).where(references.c.deployment_id == deployment_id)
    if before is not None:
        statement = statement.where(references.c.generation < before)
    tx.conn.execute(statement)


def users_of(conn: Connection, secret: str) -> list[str]:
    """Ids of the Deployments, not yet deleted, of which a revision names the Secret; those being admitted too."""
    statement = select(references.c.deployment_id).where(references.c.name_key == secret.lower())
    return list(conn.execute(statement.distinct().order_by(references.c.deployment_id)).scalars())


def _place(deployment_id: str, generation: int) -> str:
    return f"{deployment_id}/{generation}"
