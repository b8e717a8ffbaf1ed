"""The change feed's table as the store keeps it."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.store import Tx, changes
from sqlalchemy import text


async def rows(shop: Any) -> list[tuple[Any, ...]]:
    statement = text("SELECT seq, kind, id, version FROM shop_change ORDER BY seq")
    found = await shop.store.read(lambda conn: conn.execute(statement).all())
    return [tuple(row) for row in found]


async def test_a_change_is_in_the_transaction_of_its_cause(shop: Any) -> None:
    def kept(tx: Tx) -> None:
        shop.add("a")(tx)
        tx.change("item", "a", version=7)

    def undone(tx: Tx) -> None:
        tx.change("item", "b")
        raise ValueError("no")

    await shop.store.write(kept)
    with pytest.raises(ValueError, match="no"):
        await shop.store.write(undone)
    await shop.store.write(lambda tx: tx.change("item", "c"))
    assert await rows(shop) == [(1, "item", "a", 7), (2, "item", "c", 0)]


async def test_only_the_newest_changes_are_kept_and_no_seq_is_used_again(shop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(changes, "KEPT", 150)

    def many(tx: Tx) -> None:
        for n in range(1000):
            tx.change("item", str(n))

    await shop.store.write(many)
    kept = await rows(shop)
    assert kept[0][0] == 851 and kept[-1][0] == 1000
    await shop.store.write(lambda tx: tx.conn.execute(text("DELETE FROM shop_change")))
    await shop.store.write(lambda tx: tx.change("item", "next"))
    assert [row[0] for row in await rows(shop)] == [1001]
