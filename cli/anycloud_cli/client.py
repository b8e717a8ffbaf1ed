"""HTTP to one API: requests, the contract's errors, and streams of JSON lines."""

from __future__ import annotations

import http.client
import json
import select
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from anycloud_cli import VERSION
from anycloud_cli.failures import ApiRefusal, Failure, Unreachable, passing, unsent
from anycloud_cli.patience import Patience
from anycloud_cli.target import Target

_TIMEOUT_SECONDS = 60.0
_START = "anycloud api start"
Query = Mapping[str, str | int | bool | None]
T = TypeVar("T")


def path(*parts: str) -> str:
    """A path under `/v1` of literal and given parts, each fully percent-encoded."""
    return "".join("/" + quote(part, safe="") for part in parts)


class Client:
    """Keeps one connection to one API. Not for use by several threads."""

    def __init__(self, target: Target, patience: Patience | None = None) -> None:
        """`patience` rides out a restart: reads are repeated, and of writes those that surely weren't seen."""
        self.target = target
        self._patience = patience
        self._connection: http.client.HTTPConnection | None = None

    def get(self, at: str, query: Query | None = None) -> Any:
        return self.request("GET", at, query=query)

    def page(self, at: str, query: Query | None = None) -> tuple[Any, int | None]:
        """The decoded answer of a list, and how many there are in all; None when these are all."""

        def once() -> tuple[Any, int | None]:
            response = self._accepted("GET", at, query, None)
            return self._decode(self._read(response)), _total(response)

        return self._patiently(once, passing)

    def request(self, method: str, at: str, *, query: Query | None = None, body: Any = None) -> Any:
        """The decoded answer, None for an empty one. Raises ApiRefusal, Unreachable."""

        def once() -> Any:
            raw = self._read(self._accepted(method, at, query, body))
            return self._decode(raw) if raw else None

        return self._patiently(once, passing if method == "GET" else unsent)

    def lines(self, at: str, query: Query | None = None) -> Iterator[Any]:
        """The JSON lines of a stream, as they come. Holds a connection of its own; no limit between two lines."""
        own = Client(self.target)
        response = self._patiently(lambda: own._accepted("GET", at, query, None), passing)
        if own._connection is not None and own._connection.sock is not None:
            own._connection.sock.settimeout(None)
        try:
            while line := response.readline():
                if line.strip():
                    yield own._decode(line)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"The API at {self.target.url} ended the stream: {_why(error)}.", sent=True) from error
        finally:
            own.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _patiently(self, once: Callable[[], T], worth: Callable[[Failure], bool]) -> T:
        return once() if self._patience is None else self._patience.read(once, worth)

    def _accepted(self, method: str, at: str, query: Query | None, body: Any) -> http.client.HTTPResponse:
        """An answer that is no refusal, its body unread."""
        try:
            response = self._send(method, at, query, body)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error, sent=not isinstance(error, ConnectionRefusedError)) from error
        if response.status >= 300:
            raise self._refusal(response, self._read(response))
        return response

    def _send(self, method: str, at: str, query: Query | None, body: Any) -> http.client.HTTPResponse:
        if self._connection is not None and _closed_by_peer(self._connection):
            self.close()
        if self._connection is None:
            self._connection = connect(self.target.url)
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        url = urlsplit(self.target.base).path + at + (f"?{urlencode(given, quote_via=quote)}" if given else "")
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        self._connection.request(method, url, body=data, headers=self._headers())
        return self._connection.getresponse()

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": f"anycloud-cli/{VERSION}",
            "AnyCloud-Client-Version": VERSION,
            "Authorization": f"Bearer {_header_safe(self._bearer())}",
        }
        if self.target.local and self.target.github_token:
            headers["AnyCloud-GitHub-Token"] = _header_safe(self.target.github_token)
        return headers

    def _bearer(self) -> str:
        if self.target.bearer is not None:
            return self.target.bearer
        if self.target.local:
            raise Failure(f"No token of a local API is here; run `{_START}` as this user, with the same ANYCLOUD_DIR.")
        raise Failure(f"No token for {self.target.url} is here; run `anycloud api use {self.target.url}`.")

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._unreachable(error, sent=True) from error

    def _decode(self, raw: bytes) -> Any:
        try:
            return json.loads(raw)
        except ValueError as error:
            raise Unreachable(f"What answers at {self.target.url} isn't an Anycloud API.", sent=True) from error

    def _refusal(self, response: http.client.HTTPResponse, raw: bytes) -> ApiRefusal:
        try:
            body = json.loads(raw)
            code, message = str(body["code"]), str(body["message"])
        except (ValueError, KeyError, TypeError):
            said = f"The API at {self.target.url} answered {response.status} {response.reason}."
            return ApiRefusal(response.status, "", said)
        said = message.strip() or f"The API refused with {code}."
        return ApiRefusal(response.status, code, said, body.get("data"), self._way_out(code))

    def _way_out(self, code: str) -> str | None:
        if code == "UNAUTHORIZED":
            return _START if self.target.local else f"anycloud api use {self.target.url}"
        if code == "CLUSTER_UNAVAILABLE" and not self.target.local:
            return "anycloud api use local"
        return None

    def _unreachable(self, error: Exception, *, sent: bool) -> Unreachable:
        if self.target.local:
            said = f"The local API at {self.target.url} doesn't answer ({_why(error)}); start it with `{_START}`."
            return Unreachable(said, sent=sent)
        said = f"The API at {self.target.url} doesn't answer ({_why(error)}); `anycloud api status` tells more."
        return Unreachable(said, sent=sent)


def connect(url: str, timeout_s: float = _TIMEOUT_SECONDS) -> http.client.HTTPConnection:
    """To the host of a URL; nothing is sent yet."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _total(page: http.client.HTTPResponse) -> int | None:
    """Of the whole list, when the page has another one behind it."""
    more = 'rel="next"' in page.headers.get("Link", "")
    return int(page.headers.get("AnyCloud-Total-Count", 0)) if more else None


def _closed_by_peer(connection: http.client.HTTPConnection) -> bool:
    """Whether there is something to read although nothing was asked: the end of a kept connection."""
    return connection.sock is not None and bool(select.select([connection.sock], [], [], 0)[0])


def _text(value: str | int | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _header_safe(token: str) -> str:
    if not (token.isascii() and token.isprintable()):
        raise Failure("A stored token has characters that no token has; sign in again.")
    return token


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "connection lost"
