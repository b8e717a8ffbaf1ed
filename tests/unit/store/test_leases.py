"""Row leases: one holder, fenced writes, and a restart that frees everything."""

from __future__ import annotations

from typing import Any

from anycloud_common.store.leases import guarded, release, take
from sqlalchemy import update


def renames(shop: Any, token: str) -> Any:
    """A guarded write; its result is the number of rows written."""
    statement = update(shop.items).where(guarded(shop.items, "a", token)).values(count=1)
    return lambda tx: tx.conn.execute(statement).rowcount


async def test_a_row_is_leased_to_one_holder_until_it_is_given_back(shop: Any) -> None:
    await shop.store.write(shop.add("a"))
    token = await shop.store.write(lambda tx: take(tx, shop.items, "a"))
    assert token is not None
    assert await shop.store.write(lambda tx: take(tx, shop.items, "a")) is None
    assert await shop.store.write(renames(shop, token)) == 1
    assert await shop.store.write(lambda tx: release(tx, shop.items, "a", token))
    assert await shop.store.write(renames(shop, token)) == 0
    assert await shop.store.write(lambda tx: take(tx, shop.items, "a")) is not None


async def test_there_is_no_lease_of_a_row_that_does_not_exist(shop: Any) -> None:
    assert await shop.store.write(lambda tx: take(tx, shop.items, "nothing")) is None
    assert await shop.store.write(lambda tx: take(tx, shop.items, "nothing", by_force=True)) is None


async def test_after_a_lease_was_taken_by_force_its_former_holder_writes_nothing(shop: Any) -> None:
    await shop.store.write(shop.add("a"))
    old = await shop.store.write(lambda tx: take(tx, shop.items, "a"))
    new = await shop.store.write(lambda tx: take(tx, shop.items, "a", by_force=True))
    assert await shop.store.write(renames(shop, old)) == 0
    assert not await shop.store.write(lambda tx: release(tx, shop.items, "a", old))
    assert await shop.store.write(renames(shop, new)) == 1


async def test_a_restart_takes_over_all_leases(shop: Any) -> None:
    await shop.store.write(shop.add("a"))
    old = await shop.store.write(lambda tx: take(tx, shop.items, "a"))
    shop.reopen()
    assert await shop.store.write(renames(shop, old)) == 1, "until somebody takes it, its holder may finish"
    new = await shop.store.write(lambda tx: take(tx, shop.items, "a"))
    assert new is not None
    assert await shop.store.write(renames(shop, old)) == 0
