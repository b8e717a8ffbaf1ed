"""JSON over HTTP to what is outside: one base URL, one connection pool, a deadline for every call."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

DEADLINE_S = 10.0


class NoAnswer(Exception):
    """No complete HTTP answer came in time. The call may have taken effect."""


class Answer(NamedTuple):
    """An HTTP answer of any status. `body` is the decoded JSON, or None when it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def text(self, key: str) -> str:
        """A string of the body's object, or "" where there is none, for error messages of the other side."""
        value = self.body.get(key) if isinstance(self.body, dict) else None
        return value if isinstance(value, str) else ""


class JsonClient:
    """Calls below one base URL. aiohttp is imported at the first call. Follows no redirects. Close it when done."""

    def __init__(self, base_url: str, deadline_s: float = DEADLINE_S) -> None:
        self._base_url = base_url.rstrip("/")
        self._deadline_s = deadline_s
        self._aiohttp: Any = None
        self._session: Any = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Answer:
        """One request; a body is sent as JSON. Raises NoAnswer, whose text holds neither headers nor body."""
        await self._open()
        request = {
            "params": query,
            "headers": {**(headers or {}), **({"Content-Type": "application/json"} if body is not None else {})},
            "data": orjson.dumps(body) if body is not None else None,
            "timeout": self._aiohttp.ClientTimeout(total=self._deadline_s),
            "allow_redirects": False,
        }
        try:
            async with self._session.request(method, self._base_url + path, **request) as response:
                return Answer(response.status, response.headers, _decoded(await response.read()))
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._deadline_s:g} s") from None
        except (self._aiohttp.ClientError, OSError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from None

    async def _open(self) -> None:
        if self._aiohttp is None:
            self._aiohttp = await asyncio.to_thread(importlib.import_module, "aiohttp")
        if self._session is None:
            proxied = may_use_proxy(self._base_url)
            self._session = self._aiohttp.ClientSession(headers={"User-Agent": "anycloud"}, trust_env=proxied)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def may_use_proxy(url: str) -> bool:
    """Whether a proxy named in the environment may carry calls to that URL: not to this machine itself."""
    host = urlsplit(url).hostname or ""
    return not (host.startswith("127.") or host in ("localhost", "::1"))


def _decoded(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
