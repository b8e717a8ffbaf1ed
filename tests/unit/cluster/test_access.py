"""Who is let in: the local token, tokens of a hosted API, its owner and those whom the owner lets in."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from anycloud_cluster.domain.access import BRIEF_MS, LASTING_TOKENS, Account, new_token
from anycloud_cluster.domain.ports import OutsideError
from anycloud_cluster.rpc.access import ApiAccessServicer, ApiTokensServicer
from anycloud_cluster.rpc.introspection import IntrospectionServicer, IssuedTokens, LocalToken
from anycloud_cluster.store.tables import CHANGE, TOKEN
from anycloud_common.calls import Principal
from anycloud_common.clock import ManualClock
from anycloud_common.errors import ApiError
from anycloud_common.store import Store
from anycloudapi.cluster.internal.v1 import cluster_pb2
from anycloudapi.cluster.v1 import access_pb2
from sqlalchemy import select

from tests.unit.cluster import fakes
from tests.unit.cluster.calling import enter
from tests.unit.cluster.fakes import World

OWNER = Account(str(sum(b"demo")), "demo")
EVE = str(sum(b"eve"))


class Hosted:
    def __init__(self, store: Store, clock: ManualClock, world: World) -> None:
        sign_ins = fakes.SignIns(world)
        self.ended: list[bytes] = []
        self.tokens = ApiTokensServicer(store, sign_ins, OWNER, self.ended.append)
        self.access = ApiAccessServicer(store, sign_ins, OWNER, self.ended.append)
        self.issued = IssuedTokens(store, clock, OWNER)

    async def exchange(self, login: str, **headers: str) -> str:
        enter(None, bearer=f"ghs_sandbox_{login}", headers=headers)
        return (await self.tokens.ExchangeApiToken(access_pb2.ExchangeApiTokenRequest(), None)).token

    async def rotate(self, token: str) -> str:
        enter(await self.who(token))
        return (await self.tokens.RotateApiToken(access_pb2.RotateApiTokenRequest(), None)).token

    async def who(self, token: str) -> Principal | None:
        return await self.issued.principal(sha256(token.encode()).digest())

    async def grant(self, login: str, by: str = "demo") -> access_pb2.User:
        enter(Principal(f"github:{sum(by.encode())}", by, "user", owner=by == "demo"))
        request = access_pb2.GrantUserRequest(grant=access_pb2.Grant(username=login))
        return await self.access.GrantUser(request, None)

    async def revoke(self, user_id: str, by: str = "demo") -> None:
        enter(Principal(f"github:{sum(by.encode())}", by, "user", owner=by == "demo"))
        await self.access.RevokeUser(access_pb2.RevokeUserRequest(user_id=user_id), None)


@pytest.fixture
def hosted(store: Store, clock: ManualClock, world: World) -> Hosted:
    return Hosted(store, clock, world)


async def refused(code: str, call: Awaitable[Any]) -> str:
    with pytest.raises(ApiError) as caught:
        await call
    assert caught.value.code == code
    return caught.value.message


async def test_the_token_of_the_file_is_the_local_principal_and_no_other_is(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("install-token\n")
    servicer = IntrospectionServicer(LocalToken(tmp_path / "token"))

    async def asked(token: str) -> cluster_pb2.IntrospectResponse:
        digest = sha256(token.encode()).digest()
        return await servicer.Introspect(cluster_pb2.IntrospectRequest(token_sha256=digest), None)

    found = (await asked("install-token")).principal
    assert (found.id, found.name, found.owner) == ("local", "local", True)
    assert not (await asked("install-token ")).HasField("principal")
    assert not (await asked("")).HasField("principal")


def test_tokens_have_the_contracts_form_and_256_random_bits() -> None:
    tokens = {new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch("acapi_[0-9A-Za-z]{43}", token) for token in tokens)


async def test_the_owner_gets_a_token_and_only_its_hash_is_stored(hosted: Hosted, store: Store) -> None:
    token = await hosted.exchange("demo")
    assert await hosted.who(token) == Principal(f"github:{OWNER.user_id}", "demo", "user", owner=True)
    rows = await store.read(lambda conn: conn.execute(select(TOKEN)).all())
    assert [row.hash for row in rows] == [sha256(token.encode()).digest()]
    assert token not in str(rows)


async def test_an_account_that_nobody_let_in_is_told_who_could(hosted: Hosted) -> None:
    message = await refused("FORBIDDEN", hosted.exchange("eve"))
    assert "its owner demo can grant it" in message


async def test_a_sign_in_that_github_refuses_is_unauthorized(hosted: Hosted, world: World) -> None:
    world.refused = {"ghs_sandbox_demo"}
    await refused("UNAUTHORIZED", hosted.exchange("demo"))
    world.fault("github.account", OutsideError("unreachable", "timeout"))
    await refused("AUTHENTICATION_UNAVAILABLE", hosted.exchange("demo"))


async def test_a_granted_account_comes_in_and_is_out_at_once_when_revoked(hosted: Hosted, store: Store) -> None:
    granted = await hosted.grant("eve")
    assert (granted.user_id, granted.username) == (EVE, "eve")
    token = await hosted.exchange("eve")
    assert await hosted.who(token) == Principal(f"github:{EVE}", "eve", "user", owner=False)
    await hosted.revoke(EVE)
    assert await hosted.who(token) is None
    await refused("FORBIDDEN", hosted.exchange("eve"))
    told = await store.read(lambda conn: conn.execute(select(CHANGE.c.kind, CHANGE.c.id)).all())
    assert ("token", sha256(token.encode()).hexdigest()) in [tuple(row) for row in told]


async def test_rotation_ends_the_old_token_at_once(hosted: Hosted) -> None:
    old = await hosted.exchange("demo")
    new = await hosted.rotate(old)
    assert await hosted.who(old) is None
    assert hosted.ended == [sha256(old.encode()).digest()]
    assert await hosted.who(new) is not None


async def test_a_second_exchange_leaves_the_first_token_and_one_too_many_ends_the_oldest(
    hosted: Hosted, clock: ManualClock
) -> None:
    tokens = []
    for _ in range(LASTING_TOKENS + 1):
        tokens.append(await hosted.exchange("demo"))
        await clock.advance(1)
    known = [await hosted.who(token) is not None for token in tokens]
    assert known == [False, *[True] * LASTING_TOKENS]


async def test_an_installers_question_gets_a_token_that_expires_and_ends_none(
    hosted: Hosted, clock: ManualClock
) -> None:
    lasting = await hosted.exchange("demo")
    for _ in range(LASTING_TOKENS + 1):
        brief = await hosted.exchange("demo", **{"anycloud-installer": "1"})
    assert await hosted.who(brief) is not None
    await clock.advance(BRIEF_MS / 1000)
    assert await hosted.who(brief) is None
    assert await hosted.who(lasting) is not None


async def test_only_the_owner_decides_and_can_be_neither_granted_nor_removed(hosted: Hosted) -> None:
    await refused("API_ACCESS_OWNER_REQUIRED", hosted.grant("eve", by="eve"))
    await refused("API_ACCESS_OWNER_REQUIRED", hosted.revoke(EVE, by="eve"))
    await refused("API_ACCESS_OWNER_CANNOT_BE_REMOVED", hosted.revoke(OWNER.user_id))
    await hosted.grant("demo")
    answer = await hosted.access.ListUsers(access_pb2.ListUsersRequest(), None)
    assert (answer.owner.user_id, list(answer.users)) == (OWNER.user_id, [])


@pytest.mark.parametrize("user_id", ["0", "01", "-1", "eve", "1.0", ""])
async def test_a_user_id_is_githubs_number(hosted: Hosted, user_id: str) -> None:
    await refused("INVALID_GITHUB_USER_ID", hosted.revoke(user_id))


@pytest.mark.parametrize("login", ["nobody", "octo-org"])
async def test_only_accounts_of_users_can_be_let_in(hosted: Hosted, login: str) -> None:
    await refused("API_ACCESS_ACCOUNT_NOT_USER", hosted.grant(login))


async def test_an_installer_has_no_users_and_issues_no_tokens(store: Store, world: World) -> None:
    tokens = ApiTokensServicer(store, fakes.SignIns(world), None, lambda digest: None)
    access = ApiAccessServicer(store, fakes.SignIns(world), None, lambda digest: None)
    enter()
    message = await refused("FORBIDDEN", tokens.ExchangeApiToken(access_pb2.ExchangeApiTokenRequest(), None))
    assert "anycloud api start" in message
    await refused("API_ACCESS_NOT_HOSTED", tokens.RotateApiToken(access_pb2.RotateApiTokenRequest(), None))
    await refused("API_ACCESS_NOT_HOSTED", access.ListUsers(access_pb2.ListUsersRequest(), None))
    await refused("API_ACCESS_NOT_HOSTED", access.GrantUser(access_pb2.GrantUserRequest(), None))
    await refused("API_ACCESS_NOT_HOSTED", access.RevokeUser(access_pb2.RevokeUserRequest(user_id="1"), None))
