"""Calls of the sandbox's world API on behalf of one credential."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, get_args
from urllib.parse import quote

from anycloud_common.http_json import Answer, JsonClient, NoAnswer

from anycloud_providers.protocol import ErrorKind, ProviderError, ProviderKind

Json = dict[str, Any]
T = TypeVar("T")

_DEADLINE_S = 12.0  # less than half a lease of a reconciler
_KINDS = frozenset(get_args(ErrorKind))
_IN_HEADERS: Final = "".join(map(chr, range(0x20, 0x7F)))


class Calls:
    """`area` is the first part of the path: "cloud" or "objects"."""

    def __init__(self, sandbox_url: str, kind: ProviderKind, credential: Mapping[str, Any]) -> None:
        self.kind = kind
        self._http = JsonClient(sandbox_url, _DEADLINE_S)
        key, secret = _keys(kind, credential)
        # A private key has line ends, which no header may have.
        self._headers = {"x-sandbox-key": quote(key, _IN_HEADERS), "x-sandbox-secret": quote(secret, _IN_HEADERS)}

    @classmethod
    def open(cls, sandbox_url: str | None, kind: ProviderKind, credential: Mapping[str, Any]) -> Calls:
        """Raises ProviderError(invalid) without a sandbox, as there are no gateways to the clouds themselves."""
        if sandbox_url is None:
            message = f"this release reaches {kind} in the sandbox only: start the API with --sandbox"
            raise ProviderError("invalid", message)
        return cls(sandbox_url, kind, credential)

    async def call(self, area: str, action: str, body: Json, read: Callable[[Json], T]) -> T:
        """The answer of one action, read. An answer that can't be read is `unreachable`: nothing is known."""
        path = f"/{area}/{self.kind}/{action}"
        try:
            answer = await self._http.call("POST", path, headers=self._headers, body=body)
        except NoAnswer as error:
            raise ProviderError("unreachable", f"{self.kind} {action}: {error}") from None
        if not answer.ok:
            raise _error(answer, f"{self.kind} {action}")
        try:
            return read(answer.body)
        except (KeyError, TypeError, ValueError):
            raise ProviderError("unreachable", f"{self.kind} {action}: the answer can't be read") from None

    async def delete(self, area: str, action: str, body: Json) -> None:
        """An action after which something is gone, or was gone before."""
        try:
            await self.call(area, action, body, lambda _: None)
        except ProviderError as error:
            if error.kind != "not_found":
                raise

    async def close(self) -> None:
        await self._http.close()


def _keys(kind: ProviderKind, credential: Mapping[str, Any]) -> tuple[str, str]:
    """Key and secret of a credential in the contract's shape."""
    names = {
        "AWS": (["accessKeyId"], "secretAccessKey"),
        "GCP": (["projectId", "clientEmail"], "privateKey"),
        "Azure": (["subscriptionId", "applicationId"], "secret"),
    }
    parts, secret = names[kind]
    missing = [name for name in (*parts, secret) if not isinstance(credential.get(name), str) or not credential[name]]
    if missing:
        raise ProviderError("invalid", f"the {kind} credential lacks {', '.join(missing)}")
    return "/".join(credential[name] for name in parts), credential[secret]


def _error(answer: Answer, call: str) -> ProviderError:
    kind = answer.text("class")
    message = answer.text("message") or f"HTTP {answer.status}"
    return ProviderError(cast(ErrorKind, kind) if kind in _KINDS else "unreachable", f"{call}: {message}")
