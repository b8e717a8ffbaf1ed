from __future__ import annotations

from anycloud_common.clock import ManualClock
from anycloud_common.server.delays import FailureDelays


def test_five_failures_a_minute_are_free_and_then_the_wait_doubles_to_five_seconds(clock: ManualClock) -> None:
    delays = FailureDelays(clock)
    waits = [delays.failed("a") for _ in range(13)]
    assert waits == [0, 0, 0, 0, 0, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


async def test_failures_count_for_a_minute(clock: ManualClock) -> None:
    delays = FailureDelays(clock)
    for _ in range(5):
        delays.failed("a")
    await clock.advance(59)
    assert delays.failed("a") == 0.2
    await clock.advance(2)
    assert delays.failed("a") == 0, "the first five are more than a minute old, one is not"


def test_addresses_do_not_share_their_failures(clock: ManualClock) -> None:
    delays = FailureDelays(clock)
    for _ in range(9):
        delays.failed("a")
    assert delays.failed("b") == 0


def test_the_table_is_bounded_and_forgets_who_failed_longest_ago(clock: ManualClock) -> None:
    delays = FailureDelays(clock)
    for _ in range(6):
        delays.failed("first")
    for n in range(4095):
        delays.failed(f"other-{n}")
    assert delays.failed("first") > 0, "4096 addresses fit"
    for n in range(4096):
        delays.failed(f"more-{n}")
    assert delays.failed("first") == 0
