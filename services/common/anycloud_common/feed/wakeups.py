"""Being told of a store's commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anycloud_common.store import Store, Tx

T = TypeVar("T")


def after_each_commit(store: Store, wake_up: Callable[[], None]) -> None:
    """Calls `wake_up` on the event loop after every later write of this store that was committed."""
    write = store.write

    async def waking_write(fn: Callable[[Tx], T]) -> T:
        def waking(tx: Tx) -> T:
            result = fn(tx)
            tx.after_commit(wake_up)
            return result

        return await write(waking)

    store.write = waking_write  # type: ignore[method-assign]
