"""API tokens, and who may have one. An installer has neither: its one token is a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from anycloud_common import calls
from anycloud_common.calls import Principal
from anycloud_common.errors import ApiError
from anycloud_common.store import Store, Tx
from anycloudapi.cluster.v1 import access_pb2, access_pb2_grpc
from google.protobuf import empty_pb2

from anycloud_cluster.domain.access import BRIEF_MS, Account, digest, is_user_id, new_token, user_of
from anycloud_cluster.domain.ports import GitHubAccount, OutsideError, SignInRefused, SignIns
from anycloud_cluster.store import access
from anycloud_cluster.store.access import Ended

BRIEF_HEADER: Final = "anycloud-installer"  # an installer's question: its token must not end the user's own


class ApiTokensServicer(access_pb2_grpc.ApiTokensServicer):
    """`owner` None: an installer. `ended` forgets what this process remembers of a token."""

    def __init__(self, store: Store, sign_ins: SignIns, owner: Account | None, ended: Ended) -> None:
        self._store = store
        self._sign_ins = sign_ins
        self._owner = owner
        self._ended = ended

    async def identify(self, variables: Mapping[str, str]) -> None:
        """For the one method that has no principal yet."""
        if calls.current().principal is None:
            self._issuing()
            await self._signed_in()

    async def ExchangeApiToken(self, request: access_pb2.ExchangeApiTokenRequest, context: Any) -> access_pb2.ApiToken:
        owner = self._issuing()
        account = await self._signed_in()
        brief = BRIEF_HEADER in calls.current().headers
        token = new_token()

        def issue(tx: Tx) -> None:
            if account.user_id != owner.user_id and not access.is_granted(tx.conn, account.user_id):
                text = (
                    f"GitHub account {account.username} may not use this API; its owner {owner.username} can grant it."
                )
                raise ApiError("FORBIDDEN", text)
            access.add(tx, account, digest(token), tx.now + BRIEF_MS if brief else None, self._ended)

        await self._store.write(issue)
        return access_pb2.ApiToken(token=token)

    async def RotateApiToken(self, request: access_pb2.RotateApiTokenRequest, context: Any) -> access_pb2.ApiToken:
        _hosted(self._owner)
        caller = _caller()
        token = new_token()

        def rotate(tx: Tx) -> None:
            access.end_all(tx, user_of(caller.id), self._ended)
            access.add(tx, Account(user_of(caller.id), caller.name), digest(token), None, self._ended)

        await self._store.write(rotate)
        return access_pb2.ApiToken(token=token)

    def _issuing(self) -> Account:
        if self._owner is None:
            raise ApiError(
                "FORBIDDEN",
                "A local API issues no tokens: its own is in the file that `anycloud api start` wrote; run that "
                "command, or choose a hosted API.",
            )
        return self._owner

    async def _signed_in(self) -> Account:
        """Whose GitHub sign-in the bearer is."""
        try:
            found = await self._sign_ins.account(calls.current().bearer or "")
        except SignInRefused as error:
            raise ApiError("UNAUTHORIZED", f"GitHub doesn't accept this sign-in: {error}.") from None
        except OutsideError as error:
            text = f"GitHub can't be asked about this sign-in now ({error.message}); try again in a moment."
            raise ApiError("AUTHENTICATION_UNAVAILABLE", text) from None
        return Account(found.id, found.login)


class ApiAccessServicer(access_pb2_grpc.ApiAccessServicer):
    """`owner` None: an installer. `ended` forgets what this process remembers of a token."""

    def __init__(self, store: Store, sign_ins: SignIns, owner: Account | None, ended: Ended) -> None:
        self._store = store
        self._sign_ins = sign_ins
        self._owner = owner
        self._ended = ended

    async def ListUsers(self, request: access_pb2.ListUsersRequest, context: Any) -> access_pb2.ListUsersResponse:
        owner = _hosted(self._owner)
        users = await self._store.read(access.users)
        return access_pb2.ListUsersResponse(owner=_user(owner), users=[_user(user) for user in users])

    async def GrantUser(self, request: access_pb2.GrantUserRequest, context: Any) -> access_pb2.User:
        owner = self._by_owner()
        found = await self._find(request.grant.username)
        account = Account(found.id, found.login)
        if account.user_id != owner.user_id:
            await self._store.write(lambda tx: access.grant(tx, account))
        return _user(account)

    async def RevokeUser(self, request: access_pb2.RevokeUserRequest, context: Any) -> empty_pb2.Empty:
        owner = self._by_owner()
        if not is_user_id(request.user_id):
            text = f"userId: must be GitHub's number of an account, not {request.user_id!r}."
            raise ApiError("INVALID_GITHUB_USER_ID", text)
        if request.user_id == owner.user_id:
            text = f"{owner.username} owns this API and can't be removed from it."
            raise ApiError("API_ACCESS_OWNER_CANNOT_BE_REMOVED", text)
        await self._store.write(lambda tx: access.revoke(tx, request.user_id, self._ended))
        return empty_pb2.Empty()

    def _by_owner(self) -> Account:
        owner = _hosted(self._owner)
        if not _caller().owner:
            text = f"Only {owner.username}, who owns this API, decides who may use it."
            raise ApiError("API_ACCESS_OWNER_REQUIRED", text)
        return owner

    async def _find(self, login: str) -> GitHubAccount:
        try:
            return await self._sign_ins.find(login, calls.current().github_token)
        except SignInRefused as error:
            raise ApiError(
                "GITHUB_SIGN_IN_REQUIRED", f"GitHub doesn't accept your sign-in ({error}): run `anycloud login`."
            ) from None
        except OutsideError as error:
            if error.kind in ("not_found", "invalid"):
                raise ApiError("API_ACCESS_ACCOUNT_NOT_USER", f"username: {error.message}.") from None
            text = f"GitHub can't be asked about {login} now ({error.message}); try again in a moment."
            raise ApiError("AUTHENTICATION_UNAVAILABLE", text) from None


def _hosted(owner: Account | None) -> Account:
    if owner is None:
        raise ApiError(
            "API_ACCESS_NOT_HOSTED",
            "A local API has no users to manage: choose a hosted one with `anycloud api use <url>`.",
        )
    return owner


def _caller() -> Principal:
    principal = calls.current().principal
    if principal is None:  # the server lets nobody in without one
        raise ApiError("UNAUTHORIZED", "This call needs an API token.")
    return principal


def _user(account: Account) -> access_pb2.User:
    return access_pb2.User(user_id=account.user_id, username=account.username)
