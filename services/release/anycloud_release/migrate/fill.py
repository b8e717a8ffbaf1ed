"""What an empty volume gets: the incarnation, the key of stored secrets, and four databases without tables.

It is all made in `filling/`, which becomes `db/` last: a `db/` is complete, or it is damaged.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from anycloud_common.cipher import Cipher

from anycloud_release.migrate.database import create_empty
from anycloud_release.migrate.durable import appearing
from anycloud_release.migrate.schema import SERVICES

INCARNATION = "incarnation"
CIPHER_KEY = "cipher.key"


def is_empty(data_dir: Path) -> bool:
    db = data_dir / "db"
    return not db.exists() or not any(db.iterdir())


def fill(data_dir: Path) -> None:
    """Makes `db/`. Raises OSError or sqlite3.Error, and then there is none."""
    with appearing(data_dir / "db", data_dir / "filling") as db:
        (db / INCARNATION).write_text(secrets.token_hex(4) + "\n", encoding="ascii")
        Cipher.load(db / CIPHER_KEY)
        for service in SERVICES:
            create_empty(db / f"{service}.sqlite")


def missing(data_dir: Path) -> list[str]:
    """The files that a filled `db/` must have and this one hasn't."""
    names = [INCARNATION, CIPHER_KEY, *(f"{service}.sqlite" for service in SERVICES)]
    return [name for name in names if not (data_dir / "db" / name).is_file()]
