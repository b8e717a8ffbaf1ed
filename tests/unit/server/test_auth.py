from __future__ import annotations

import asyncio
import hashlib

import pytest
from anycloud_common.auth import TokenAuthenticator
from anycloud_common.calls import Principal
from anycloud_common.clock import ManualClock
from anycloud_common.errors import ApiError

DEMO = Principal("u-1", "demo", "user")


def sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Introspection:
    """Knows some tokens; holds its answers back while `open` is not set."""

    def __init__(self, *tokens: str) -> None:
        self.known = {sha256(token): DEMO for token in tokens}
        self.asked: list[bytes] = []
        self.open = asyncio.Event()
        self.open.set()
        self.question = asyncio.Event()
        self.fails: Exception | None = None

    async def __call__(self, digest: bytes) -> Principal | None:
        self.asked.append(digest)
        self.question.set()
        answer = self.known.get(digest)
        await self.open.wait()
        if self.fails:
            raise self.fails
        return answer


@pytest.fixture
def introspection() -> Introspection:
    return Introspection("t", "u")


@pytest.fixture
def authenticator(introspection: Introspection, clock: ManualClock) -> TokenAuthenticator:
    return TokenAuthenticator(introspection, clock)


async def refusal(authenticator: TokenAuthenticator, token: str) -> str:
    with pytest.raises(ApiError) as refused:
        await authenticator.user(token)
    return refused.value.code


async def test_only_the_hash_of_a_token_is_asked_for(
    authenticator: TokenAuthenticator, introspection: Introspection
) -> None:
    assert await authenticator.user("t") == DEMO
    assert introspection.asked == [sha256("t")]


async def test_a_verdict_is_used_for_ten_seconds(
    authenticator: TokenAuthenticator, introspection: Introspection, clock: ManualClock
) -> None:
    await authenticator.user("t")
    introspection.known.clear()
    await clock.advance(9.9)
    assert await authenticator.user("t") == DEMO
    await clock.advance(0.1)
    assert await refusal(authenticator, "t") == "UNAUTHORIZED"


async def test_the_ten_seconds_count_from_the_question_not_from_the_answer(
    authenticator: TokenAuthenticator, introspection: Introspection, clock: ManualClock
) -> None:
    introspection.open.clear()
    asking = asyncio.create_task(authenticator.user("t"))
    await clock.advance(4)
    introspection.open.set()
    await asking
    await clock.advance(6)
    await authenticator.user("t")
    assert len(introspection.asked) == 2


async def test_an_unknown_token_is_asked_for_each_time(
    authenticator: TokenAuthenticator, introspection: Introspection
) -> None:
    assert await refusal(authenticator, "new") == "UNAUTHORIZED"
    introspection.known[sha256("new")] = DEMO
    assert await authenticator.user("new") == DEMO


async def test_callers_with_one_token_share_one_question(
    authenticator: TokenAuthenticator, introspection: Introspection
) -> None:
    introspection.open.clear()
    callers = [asyncio.create_task(authenticator.user(token)) for token in "ttttu"]
    await introspection.question.wait()
    introspection.open.set()
    assert await asyncio.gather(*callers) == [DEMO] * 5
    assert sorted(introspection.asked) == sorted([sha256("t"), sha256("u")])


async def test_a_caller_that_leaves_does_not_take_the_answer_along(
    authenticator: TokenAuthenticator, introspection: Introspection
) -> None:
    introspection.open.clear()
    leaving, staying = (asyncio.create_task(authenticator.user("t")) for _ in range(2))
    await introspection.question.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    introspection.open.set()
    assert await staying == DEMO
    assert len(introspection.asked) == 1


async def test_a_dropped_token_is_asked_for_at_once(
    authenticator: TokenAuthenticator, introspection: Introspection
) -> None:
    await authenticator.user("t")
    introspection.known.clear()
    authenticator.drop(sha256("t"))
    assert await refusal(authenticator, "t") == "UNAUTHORIZED"


async def test_an_answer_from_before_the_drop_is_not_kept(
    authenticator: TokenAuthenticator, introspection: Introspection
) -> None:
    introspection.open.clear()
    before = asyncio.create_task(authenticator.user("t"))
    await introspection.question.wait()
    introspection.known.clear()  # revoked after the question was put
    authenticator.drop(sha256("t"))
    introspection.open.set()
    assert await before == DEMO
    assert await refusal(authenticator, "t") == "UNAUTHORIZED"


async def test_when_nobody_can_be_asked_tokens_are_neither_good_nor_bad(
    authenticator: TokenAuthenticator, introspection: Introspection, caplog: pytest.LogCaptureFixture
) -> None:
    introspection.fails = OSError("socket gone")
    assert await refusal(authenticator, "t") == "AUTHENTICATION_UNAVAILABLE"
    introspection.fails = None
    assert await authenticator.user("t") == DEMO
    assert "socket gone" in str([vars(record) for record in caplog.records])


async def test_verdicts_outlive_an_absence_of_ten_seconds_at_most(
    authenticator: TokenAuthenticator, introspection: Introspection, clock: ManualClock
) -> None:
    await authenticator.user("t")
    introspection.fails = OSError("gone")
    await clock.advance(5)
    assert await authenticator.user("t") == DEMO
    await clock.advance(5)
    assert await refusal(authenticator, "t") == "AUTHENTICATION_UNAVAILABLE"


async def test_the_memory_of_tokens_is_bounded(authenticator: TokenAuthenticator, introspection: Introspection) -> None:
    await authenticator.user("t")
    for n in range(4096):
        introspection.known[sha256(f"n{n}")] = DEMO
        await authenticator.user(f"n{n}")
    introspection.asked.clear()
    await authenticator.user("n4095")
    assert introspection.asked == []
    await authenticator.user("t")
    assert introspection.asked == [sha256("t")]
