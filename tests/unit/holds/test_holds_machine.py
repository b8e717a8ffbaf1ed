"""Any sequence of acquires, repetitions and releases against a model that a reader can check in his head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from anycloud_common import holds
from anycloud_common.holds import ADMISSION_RELEASED, NO_FREE_DEVICES, Admission, Owner, Parent, Refusal
from anycloud_common.store import Tx
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from sqlalchemy import Connection, create_engine

from tests.unit.holds.parent import METADATA, POOL, PREFIX, PoolPolicy, add_pool

DEVICES = {"np-1": 3, "np-2": 5}


@dataclass
class Model:
    held: dict[str, Admission] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)

    def of_pool(self, pool: str, but: Owner | None = None) -> dict[Owner, int]:
        """The largest hold of each owner."""
        largest: dict[Owner, int] = {}
        for admission in self.held.values():
            if Parent(POOL, pool) in admission.parents and admission.owner != but:
                largest[admission.owner] = max(admission.devices, largest.get(admission.owner, 0))
        return largest

    def acquire(self, admission: Admission) -> str | None:
        if admission.id in self.released:
            return ADMISSION_RELEASED
        if admission.id in self.held:
            return None
        for parent in admission.parents:
            free = DEVICES[parent.id] - sum(self.of_pool(parent.id, but=admission.owner).values())
            if admission.devices > free:
                return NO_FREE_DEVICES
        self.held[admission.id] = admission
        return None


class _Transaction:
    """What holds need of a Tx, on a database in memory."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.now = 1_750_000_000_000

    def change(self, kind: str, id: str) -> None: ...


class Holds(RuleBasedStateMachine):
    admissions = Bundle("admissions")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.made = 0
        self.conn = create_engine("sqlite://").connect()
        METADATA.create_all(self.conn)
        self.tx = cast(Tx, _Transaction(self.conn))
        for pool, devices in DEVICES.items():
            add_pool(self.tx, pool, devices=devices)

    def teardown(self) -> None:
        self.conn.close()

    @rule(
        target=admissions,
        owner=st.sampled_from("abc"),
        pools=st.sets(st.sampled_from(sorted(DEVICES)), min_size=1),
        devices=st.integers(0, 4),
    )
    def begin(self, owner: str, pools: set[str], devices: int) -> Admission:
        self.made += 1
        parents = tuple(Parent(POOL, pool) for pool in sorted(pools))
        return Admission(f"adm-{self.made}", Owner("deployment", owner), parents, devices)

    @rule(admission=admissions)
    def acquire(self, admission: Admission) -> None:
        refusal: Refusal | None = holds.acquire(self.tx, PREFIX, PoolPolicy(), "deployment", admission)
        assert (refusal.code if refusal else None) == self.model.acquire(admission)

    @rule(released=st.lists(admissions, max_size=3))
    def release(self, released: list[Admission]) -> None:
        ids = [admission.id for admission in released]
        holds.release(self.tx, PREFIX, ids)
        self.model.released.update(ids)
        for id in ids:
            self.model.held.pop(id, None)

    @invariant()
    def devices_are_never_promised_twice(self) -> None:
        for pool, devices in DEVICES.items():
            held = holds.devices_held(self.conn, PREFIX, POOL, pool)
            assert held == sum(self.model.of_pool(pool).values())
            assert held <= devices

    @invariant()
    def owners_are_those_that_hold(self) -> None:
        for pool in DEVICES:
            assert holds.owners(self.conn, PREFIX, POOL, pool) == sorted(self.model.of_pool(pool))


TestHolds = Holds.TestCase
TestHolds.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
