"""The rule of the queue: each mark is followed by a pass that began after it, and a key has one pass at a time."""

from __future__ import annotations

import asyncio

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.reconcile import WorkQueue
from hypothesis import given
from hypothesis import strategies as st

KEYS = ("a", "b", "c")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("mark"), st.sampled_from(KEYS), st.sampled_from([0.0, 1.0, 5.0])),
        st.tuples(st.just("take"), st.just(""), st.just(0.0)),
        st.tuples(st.just("finish"), st.sampled_from(KEYS), st.just(0.0)),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from([0.5, 1.0, 4.0])),
    ),
    max_size=60,
)


class Model:
    """Runs steps on a queue and checks its rules after each."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.queue = WorkQueue(self.clock)
        self.running: set[str] = set()
        self.wanted: dict[str, float] = {}  # key to the earliest due time of the marks since its last pass began

    async def step(self, kind: str, key: str, seconds: float) -> None:
        if kind == "mark":
            self.queue.mark(key, seconds)
            due = self.clock.monotonic() + seconds
            self.wanted[key] = min(due, self.wanted.get(key, due))
        elif kind == "take":
            self.take()
        elif kind == "finish" and key in self.running:
            self.queue.finish(key)
            self.running.discard(key)
        elif kind == "wait":
            await self.clock.advance(seconds)

    def take(self) -> str | None:
        now = self.clock.monotonic()
        ready = {key: due for key, due in self.wanted.items() if due <= now and key not in self.running}
        key = self.queue.take()
        if key is None:
            assert not ready, "a key is due and isn't given out"
            return None
        assert key in ready, "given out although running, not due or not marked"
        assert ready[key] == min(ready.values()), "another has been due longer"
        self.running.add(key)
        del self.wanted[key]
        return key


@given(steps)
def test_any_interleaving_handles_each_mark_after_it_was_made_and_never_two_at_once(
    actions: list[tuple[str, str, float]],
) -> None:
    async def run() -> None:
        model = Model()
        for action in actions:
            await model.step(*action)
        await model.clock.advance(10)
        for key in sorted(model.running):
            await model.step("finish", key, 0)
        while (due := model.take()) is not None:
            await model.step("finish", due, 0)
        assert not model.wanted, "a mark was never followed by a pass"

    asyncio.run(run())


async def test_a_key_marked_often_is_given_out_once_at_the_earliest_time() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    for after in (5, 2, 9):
        queue.mark("a", after)
    await clock.advance(2)
    assert queue.take() == "a"
    queue.finish("a")
    await clock.advance(20)
    assert queue.take() is None


async def test_next_waits_without_polling_for_a_mark_or_for_the_time_it_asked_for() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    got = asyncio.create_task(queue.next())
    await clock.advance(1000)
    assert clock.sleepers == 0 and not got.done(), "it waits for a mark, not for time"
    queue.mark("a", after=5)
    await clock.advance(4.9)
    assert clock.sleepers == 1 and not got.done()
    queue.mark("b", after=0)
    assert await got == "b"
    got = asyncio.create_task(queue.next())
    await clock.advance(0.1)
    assert await got == "a"


async def test_a_forgotten_later_time_does_not_give_out_a_key_that_is_being_handled() -> None:
    clock = ManualClock()
    queue = WorkQueue(clock)
    queue.mark("a", after=5)
    queue.mark("a", after=0)
    assert queue.take() == "a"
    await clock.advance(5)
    queue.mark("a")
    assert queue.take() is None
    queue.finish("a")
    assert queue.take() == "a"


async def test_a_key_cannot_be_begun_twice() -> None:
    queue = WorkQueue(ManualClock())
    queue.begin("a")
    with pytest.raises(RuntimeError, match="a is being handled"):
        queue.begin("a")
