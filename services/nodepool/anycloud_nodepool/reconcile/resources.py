"""What the ledger said last about each pool's resources, read again only after it changed."""

from __future__ import annotations

from collections.abc import Mapping

from anycloud_nodepool.domain.model import ResourceFact
from anycloud_nodepool.domain.ports import Ledger


class Resources:
    """A copy of the ledger's facts, by pool and token. The change feed says when it is stale."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, dict[str, ResourceFact]] = {}
        self._stale: set[str] = set()

    def stale(self, pool_id: str) -> None:
        """Something of the pool changed in the ledger."""
        self._stale.add(pool_id)

    def known(self, pool_id: str) -> Mapping[str, ResourceFact]:
        """As read last; nothing before the first time."""
        return self._known.get(pool_id, {})

    async def read(self, pool_id: str) -> Mapping[str, ResourceFact]:
        """The facts of now. Raises ClusterUnavailable."""
        if pool_id in self._stale or pool_id not in self._known:
            self._stale.discard(pool_id)  # before the question: a change during it makes it stale again
            try:
                facts = await self._ledger.resources(pool_id)
            except BaseException:
                self._stale.add(pool_id)
                raise
            self._known[pool_id] = {fact.token: fact for fact in facts}
        return self._known[pool_id]

    def learn(self, pool_id: str, fact: ResourceFact) -> None:
        """What an own call was answered."""
        facts = self._known.setdefault(pool_id, {})
        if fact.token not in facts or facts[fact.token].version <= fact.version:
            facts[fact.token] = fact

    def forget(self, pool_id: str) -> None:
        """The pool is no more."""
        self._known.pop(pool_id, None)
        self._stale.discard(pool_id)
