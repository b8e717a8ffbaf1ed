"""The life of one VM as pure functions, and any interleaving of what can happen to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from anycloud_nodepool.domain import attempts as rules
from anycloud_nodepool.domain.attempts import Now
from anycloud_nodepool.domain.model import Attempt, Counts, Loss, NodeFact, Pool, ResourceFact, ResourceState, Stage
from anycloud_nodepool.domain.status import counts
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

MINUTE = 60_000


def attempt(**values: Any) -> Attempt:
    base = Attempt("at-1-x", 1, "np-1", 0, 0, "np-1-1-x", "tok", Stage.BUYING, 0)
    return replace(base, **values)


def pool(**values: Any) -> Pool:
    base = Pool("np-1", "cpu", "cl", "cr", "aws", "AWS", "us-east-1", None, "m5.large", 1, 0, "me", 0, 0)
    return replace(base, **values)


def resource(state: ResourceState, **values: Any) -> ResourceFact:
    return ResourceFact("at-1-x", state, **values)


def node(ready: bool = True) -> NodeFact:
    return NodeFact("np-1-1-x", "uid", {}, ready)


def advance(before: Attempt, fact: ResourceFact | None, seen: NodeFact | None, minutes: float = 0) -> Attempt:
    at = round(minutes * MINUTE)
    return rules.advance(before, fact, seen, True, Now(at, at), sighted=True)


RUNNING = resource(ResourceState.RUNNING, address="1.2.3.4", created_at=0)


@pytest.mark.req("NP-047")
def test_a_vm_whose_node_does_not_appear_within_ten_minutes_is_lost() -> None:
    bought = advance(attempt(), RUNNING, None)
    assert bought.stage is Stage.JOINING
    assert advance(bought, RUNNING, None, 9.99).stage is Stage.JOINING
    late = advance(bought, RUNNING, None, 10)
    assert (late.stage, late.loss) == (Stage.DRAINING, Loss.NEVER_JOINED)


@pytest.mark.req("NP-048")
@pytest.mark.parametrize("seen", [node(False), None])
def test_a_node_that_is_not_ready_or_gone_for_fifteen_minutes_loses_its_vm(seen: NodeFact | None) -> None:
    joined = advance(attempt(), RUNNING, node())
    bad = advance(joined, RUNNING, seen, 5)
    assert advance(bad, RUNNING, seen, 19.99).stage is Stage.JOINED
    assert advance(bad, RUNNING, seen, 20).loss is Loss.NOT_READY


@pytest.mark.req("NP-048")
def test_a_recovery_in_between_begins_the_fifteen_minutes_anew() -> None:
    bad = advance(advance(attempt(), RUNNING, node()), RUNNING, node(False), 5)
    good = advance(bad, RUNNING, node(), 19)
    again = advance(good, RUNNING, node(False), 20)
    assert advance(again, RUNNING, node(False), 34.99).stage is Stage.JOINED
    assert advance(again, RUNNING, node(False), 35).stage is Stage.DRAINING


@pytest.mark.parametrize(
    ("state", "stage", "loss"),
    [
        (ResourceState.PENDING, Stage.BUYING, None),
        (ResourceState.FAILED, Stage.DRAINING, Loss.REFUSED),
        (ResourceState.LOST, Stage.DRAINING, Loss.VANISHED),
        (ResourceState.RELEASED, Stage.RELEASED, Loss.VANISHED),
        (ResourceState.RELEASING, Stage.BUYING, None),
    ],
)
def test_only_the_ledgers_word_ends_an_attempt(state: ResourceState, stage: Stage, loss: Loss | None) -> None:
    after = advance(attempt(), resource(state), None)
    assert (after.stage, after.loss) == (stage, loss)


@pytest.mark.req("NP-076")
@pytest.mark.parametrize("fact", [None, RUNNING, resource(ResourceState.RELEASING), resource(ResourceState.LOST)])
def test_a_vm_on_its_way_out_stays_so_until_its_provider_confirms(fact: ResourceFact | None) -> None:
    leaving = rules.lost(attempt(), Loss.DELETED, "")
    assert advance(leaving, fact, node(), 1000).stage is Stage.DRAINING


def test_while_the_cluster_cannot_be_read_no_time_runs_out() -> None:
    bought = advance(attempt(), RUNNING, None)
    blind = rules.advance(bought, RUNNING, None, True, Now(99 * MINUTE, 99 * MINUTE), sighted=False)
    assert blind == bought


@pytest.mark.req("NP-050")
@pytest.mark.parametrize(
    ("values", "following"),
    [
        ({"loss": Loss.NEVER_JOINED, "replacement": 0}, 1),
        ({"loss": Loss.NEVER_JOINED, "replacement": 2}, 3),
        ({"loss": Loss.NOT_READY, "replacement": 2, "ready_at": 5}, 1),
        ({"loss": Loss.REFUSED, "replacement": 2}, 2),
        ({"loss": Loss.VANISHED, "replacement": 1}, 2),
    ],
)
def test_a_series_of_replacements_is_broken_by_its_own_vm_being_ready_and_a_refused_purchase_is_none(
    values: dict[str, Any], following: int
) -> None:
    assert rules.next_replacement(attempt(**values)) == following


@pytest.mark.req("NP-049", "NP-051", "OPEN-040")
def test_the_fourth_loss_in_a_row_parks_with_the_join_preconditions() -> None:
    third = attempt(loss=Loss.NEVER_JOINED, replacement=2, loss_detail="it never came")
    assert rules.parks({0: third}) is None
    text = rules.parks({0: replace(third, replacement=3)})
    assert text is not None
    for precondition in rules.JOIN_PRECONDITIONS:
        assert precondition in text


@pytest.mark.req("NP-052", "NP-053")
def test_provider_failures_wait_one_two_four_eight_minutes_and_the_fifth_parks() -> None:
    current, now, waits = pool(), 0, []
    for _ in range(4):
        refusal = attempt(loss=Loss.REFUSED, created_at=now, loss_detail="capacity: none left")
        current = rules.count_failures(current, [refusal], [], Now(now, now))
        waits.append(current.retry_at - now)
        now = current.retry_at
    assert waits == [MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE]
    assert current.parked is None
    refusal = attempt(loss=Loss.REFUSED, created_at=now, loss_detail="capacity: none left")
    parked = rules.count_failures(current, [refusal], [], Now(now, now)).parked
    assert parked is not None
    assert "capacity: none left" in parked


@pytest.mark.req("NP-053")
def test_a_success_in_between_starts_the_count_again() -> None:
    failed = pool(provider_failures=4, failed_at=100, retry_at=200)
    after = rules.count_failures(failed, [], [attempt(created_at=200)], Now(300, 300))
    assert (after.provider_failures, after.retry_at) == (0, 0)


def test_many_refusals_of_one_round_count_once_and_a_late_success_of_it_changes_nothing() -> None:
    refusals = [attempt(id=f"at-{n}-x", loss=Loss.REFUSED, created_at=5) for n in range(50)]
    once = rules.count_failures(pool(), refusals[:20], [], Now(10, 10))
    after = rules.count_failures(once, refusals[20:], [attempt(created_at=5)], Now(11, 11))
    assert (once.provider_failures, after.provider_failures) == (1, 1)


@pytest.mark.req("OPEN-042")
def test_a_vm_counts_once_and_a_purchase_that_was_refused_is_no_vm_on_its_way_out() -> None:
    vms = [
        attempt(),
        attempt(stage=Stage.JOINED, node_ready=True),
        attempt(stage=Stage.DRAINING, loss=Loss.NOT_READY),
        attempt(stage=Stage.DRAINING, loss=Loss.REFUSED),
        attempt(stage=Stage.RELEASED, loss=Loss.NOT_READY),
    ]
    assert counts(vms) == Counts(ready=1, starting=1, draining=1)


class OnePlace(RuleBasedStateMachine):
    """A place of a pool under anything that can happen: to the VM, to its Node, to time."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool()
        self.attempts: list[Attempt] = []
        self.facts: dict[str, ResourceFact] = {}
        self.nodes: dict[str, NodeFact] = {}
        self.now = 0
        self.losses_in_a_row = 0

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def _fact(self, state: ResourceState, *allowed: ResourceState) -> None:
        if self.last and self.facts[self.last.id].state in allowed:
            self.facts[self.last.id] = ResourceFact(self.last.id, state, created_at=self.now, failure="capacity: no")

    @rule()
    def buy(self) -> None:
        if self.pool.parked or self.now < self.pool.retry_at:
            return
        for want in rules.wants(self.pool, rules.latest_of(self.attempts)):
            number = len(self.attempts) + 1
            made = attempt(id=f"at-{number}-x", number=number, replacement=want.replacement, created_at=self.now)
            self.attempts.append(made)
            self.facts[made.id] = ResourceFact(made.id, ResourceState.PENDING)

    @rule()
    def confirm(self) -> None:
        self._fact(ResourceState.RUNNING, ResourceState.PENDING)

    @rule()
    def refuse(self) -> None:
        self._fact(ResourceState.FAILED, ResourceState.PENDING)

    @rule()
    def vanish(self) -> None:
        self._fact(ResourceState.LOST, ResourceState.RUNNING)

    @rule()
    def released(self) -> None:
        if self.last and self.last.stage is Stage.DRAINING:
            self._fact(ResourceState.RELEASED, *ResourceState)

    @rule(ready=st.booleans())
    def node_reports(self, ready: bool) -> None:
        if self.last and self.facts[self.last.id].state is ResourceState.RUNNING:
            self.nodes[self.last.id] = node(ready)

    @rule(minutes=st.integers(1, 20))
    def time(self, minutes: int) -> None:
        self.now += minutes * MINUTE

    @rule(sighted=st.booleans())
    def look(self, sighted: bool) -> None:
        if self.last is None:
            return
        before = self.last
        now = Now(self.now, self.now)
        after = rules.advance(before, self.facts[before.id], self.nodes.get(before.id), True, now, sighted=sighted)
        self.attempts[-1] = after
        refused = [after] if after.loss is Loss.REFUSED and before.loss is None else []
        bought = [after] if after.bought_at is not None and before.bought_at is None else []
        self.pool = rules.count_failures(self.pool, refused, bought, now)
        parked = rules.parks(rules.latest_of(self.attempts))
        if parked and not self.pool.parked:
            self.pool = replace(self.pool, parked=parked)

    @invariant()
    def one_vm_at_a_time(self) -> None:
        assert sum(one.open for one in self.attempts) <= 1

    @invariant()
    def never_more_than_three_replacements_in_a_row(self) -> None:
        assert all(one.replacement <= rules.REPLACEMENTS for one in self.attempts)

    @invariant()
    def an_open_attempt_is_never_forgotten(self) -> None:
        for one in self.attempts:
            if one.stage in (Stage.RELEASED, Stage.CLOSED):
                assert self.facts[one.id].state is ResourceState.RELEASED


TestOnePlace = OnePlace.TestCase
TestOnePlace.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.booleans(), max_size=12))
def test_at_most_five_purchases_fail_in_a_row(outcomes: list[bool]) -> None:
    current, now, in_a_row = pool(), 0, 0
    for success in outcomes:
        if current.parked:
            break
        made = attempt(created_at=now)
        refused = [] if success else [replace(made, loss=Loss.REFUSED, loss_detail="quota: no")]
        current = rules.count_failures(current, refused, [made] if success else [], Now(now, now))
        in_a_row = 0 if success else in_a_row + 1
        assert current.provider_failures == in_a_row
        assert (current.parked is not None) == (in_a_row == rules.PROVIDER_FAILURES)
        now = max(now, current.retry_at) + 1
