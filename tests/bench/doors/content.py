"""What is in the databases of the benchmarks: Deployments whose Jobs wait. The same in every one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anycloud_common.cipher import Cipher
from anycloud_common.clock import SystemClock
from anycloud_common.settings import Settings
from anycloud_common.store import Store, Tx
from anycloud_deployment.domain.model import Deployment, Resources, Revision, Spec
from anycloud_deployment.store import deployments
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.job_reads import Submission
from anycloud_deployment.store.jobs import Jobs
from anycloud_deployment.store.revisions import Revisions
from anycloud_deployment.store.tables import SERVICE

CREATED_AT = 1_700_000_000_000
SUBMITTER = Actor("local", "bench")
_SPEC = Spec(
    image="registry.example/trainer:1",
    command=("python", "-m", "trainer"),
    env={"MODE": "fast", "LEVEL": "3"},
    slots=4,
)


def environment(directory: Path, token: str) -> dict[str, str]:
    """What the processes of an installer API in `directory` need to know."""
    token_file = directory / "token"
    token_file.write_text(token)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ANYCLOUD_")}
    return {
        **inherited,
        "ANYCLOUD_MODE": "installer",
        "ANYCLOUD_DATA_DIR": str(directory),
        "ANYCLOUD_RUNTIME_DIR": str(directory / "run"),
        "ANYCLOUD_PUBLIC_URL": "http://127.0.0.1:8080",
        "ANYCLOUD_LOCAL_TOKEN_FILE": str(token_file),
    }


def migrate(env: dict[str, str]) -> None:
    """Makes the empty databases."""
    Path(env["ANYCLOUD_RUNTIME_DIR"]).mkdir(mode=0o700)
    subprocess.run([sys.executable, "-m", "anycloud_release.migrate"], env=env, check=True, stderr=subprocess.DEVNULL)


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[Store, Cipher]]:
    store = Store.open(settings.database(SERVICE), SERVICE, SystemClock())
    try:
        yield store, Cipher.load(settings.cipher_key)
    finally:
        store.close()


def add(tx: Tx, cipher: Cipher, number: int, jobs: int = 0, deleted: bool = False) -> str:
    """A Deployment and its Jobs; gives its id."""
    made = Deployment(
        id=f"dep-{number:012d}",
        name=f"trainer-{number}",
        node_pool_id="np-4k2zq7w3x5ab",
        node_pool_name="trainers",
        created_by="local",
        created_at=CREATED_AT + number,
        updated_at=CREATED_AT + number,
        generation=1,
        slots=4,
    )
    deployments.add(tx, made)
    resources = Resources(0, 1000, True, 1 << 30, True)
    Revisions(cipher).add(tx, made.id, Revision(1, _SPEC, resources, f"adm-{number}", CREATED_AT))
    wanted = [Submission(f"job-{number}-{one}", session="bench") for one in range(jobs)]
    for start in range(0, jobs, 1000):
        Jobs(UNHEARD).submit(tx, made, wanted[start : start + 1000], SUBMITTER)
    if deleted:
        deployments.change(tx, made.id, deletion_requested_at=tx.now, deleted_at=tx.now)
    return made.id


class _Unheard:
    """Wakes nobody."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


UNHEARD: Any = _Unheard()
