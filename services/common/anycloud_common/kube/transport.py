"""HTTP to one Kubernetes API server, through the official client's REST layer.

That layer is imported at the first call, in a thread: it takes half a second and 50 MB, and most processes of an
installation never speak to a cluster. Its models stay unloaded: bodies are plain dicts.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from anycloud_common.clock import Clock
from anycloud_common.http_json import may_use_proxy
from anycloud_common.kube.errors import KubeError, from_status

DEADLINE_S = 10.0
_CONCURRENT_CALLS = 64
_TOKEN_FILE_LIFE_S = 60.0
_LONGEST_LINE = 4 << 20  # objects have at most 1.5 MiB in the API server's store; of a log's line it is a piece
_LONGEST_RETRY_AFTER_S = 60

TokenSource = Callable[[], str]


class Request(NamedTuple):
    """One HTTP request. `verb` and `resource` are RBAC's words, for error texts."""

    verb: str
    resource: str
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = "application/json"


class TokenFile:
    """A projected ServiceAccount token, read again every minute because the kubelet replaces it, and when the server
    doesn't accept it any more."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = 0.0

    def __call__(self) -> str:
        now = self._clock.monotonic()
        if not self._token or now - self._read_at >= _TOKEN_FILE_LIFE_S:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                raise KubeError("auth", f"the ServiceAccount token can't be read: {error.strerror}") from None
            self._read_at = now
        return self._token

    def refused(self) -> None:
        """The server doesn't accept the token that was given out last."""
        self._token = ""


class Transport:
    """Sends requests to one API server over one connection pool, each with a deadline."""

    def __init__(self, endpoint: str, ca_pem: str, token: TokenSource, deadline_s: float = DEADLINE_S) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._ca_pem = ca_pem
        self._token = token
        self._deadline_s = deadline_s
        self._opening: asyncio.Task[Any] | None = None
        self._calls = asyncio.Semaphore(_CONCURRENT_CALLS)

    async def call(self, request: Request) -> dict[str, Any]:
        """The JSON object of a 2xx answer. Raises KubeError for everything else."""
        with _classified(request):
            async with asyncio.timeout(self._deadline_s), self._calls:
                response = await self._send(request, self._deadline_s, self._deadline_s)
                async with response:
                    return self._object(request, response, await response.read())

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, idle_s: float | None) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a 2xx answer, as they come. A line that takes longer than `idle_s` counts as a lost connection.

        Raises KubeError at entry, and from the iterator when the connection is lost; a proper end just ends it.
        """
        with _classified(request):
            response = await self._open_stream(request, idle_s)
        async with response:
            yield _lines(request, response.content)

    async def close(self) -> None:
        if self._opening is None:
            return
        with contextlib.suppress(OSError):  # it never opened, and whoever called was told
            client = await self._opening
            await client.close()

    async def _open_stream(self, request: Request, idle_s: float | None) -> Any:
        async with asyncio.timeout(self._deadline_s):
            response = await self._send(request, None, idle_s)
            if not 200 <= response.status < 300:
                async with response:
                    self._object(request, response, await response.read())
        return response

    def _object(self, request: Request, response: Any, body: bytes) -> dict[str, Any]:
        if response.status == HTTPStatus.UNAUTHORIZED and isinstance(self._token, TokenFile):
            self._token.refused()
        return _object(request, response.status, body, _seconds(response.headers.get("Retry-After", "")))

    async def _send(self, request: Request, total_s: float | None, idle_s: float | None) -> Any:
        """aiohttp's response, headers read. It must be used as a context manager, which gives the connection back."""
        import aiohttp

        client = await self._client()
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Accept": "application/json",
            "Content-Type": request.content_type,
            "User-Agent": "anycloud",
        }
        answer = await client.call_api(
            request.method,
            f"{self._endpoint}{request.path}{query}",
            header_params=headers,
            body=request.body,
            _request_timeout=aiohttp.ClientTimeout(total=total_s, sock_connect=self._deadline_s, sock_read=idle_s),
        )
        return answer.response

    async def _client(self) -> Any:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Any:
        client = await asyncio.to_thread(importlib.import_module, "kubernetes.aio.client.api_client")
        configuration = client.Configuration(host=self._endpoint, ca_cert_data=self._ca_pem or None)
        configuration.connection_pool_maxsize = 0  # watches and logs hold theirs; calls are bounded here
        traces = [self._trace()]
        configuration.client_session_kwargs = {"trust_env": may_use_proxy(self._endpoint), "trace_configs": traces}
        return client.ApiClient(configuration)

    def connecting(self) -> None:
        """The request at hand needs a new TCP connection. What this raises, the request raises, unsent."""

    def _trace(self) -> Any:
        import aiohttp

        async def note(*about: Any) -> None:
            self.connecting()

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_start.append(note)
        return trace


@contextlib.contextmanager
def _classified(request: Request) -> Iterator[None]:
    """Turns what aiohttp raises into KubeError."""
    import aiohttp

    try:
        yield
    except TimeoutError:
        raise _unreachable(request, "no answer in time") from None
    except (aiohttp.ClientError, OSError) as error:
        raise _unreachable(request, str(error) or type(error).__name__) from None


def _unreachable(request: Request, text: str) -> KubeError:
    message = f"{request.verb} {request.resource}: {text}"
    return KubeError("unreachable", message, verb=request.verb, resource=request.resource)


def _seconds(text: str) -> float:
    """Of a Retry-After header; API servers write seconds."""
    return float(min(int(text), _LONGEST_RETRY_AFTER_S)) if text.isascii() and text.isdecimal() else 0.0


def _object(request: Request, status: int, body: bytes, retry_after: float) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not 200 <= status < 300:
        error = from_status(status, answer if isinstance(answer, dict) else {}, request.verb, request.resource)
        error.retry_after = retry_after
        raise error
    if not isinstance(answer, dict):
        raise _unreachable(request, "the answer is not JSON")
    return answer


async def _lines(request: Request, content: Any) -> AsyncIterator[bytes]:
    """aiohttp's own reader of lines gives up on those that a Secret or a container may well write."""
    rest = bytearray()
    with _classified(request):
        async for chunk in content.iter_any():
            begin = 0
            while (end := chunk.find(b"\n", begin)) >= 0:
                yield bytes(rest) + chunk[begin : end + 1]
                rest.clear()
                begin = end + 1
            rest += chunk[begin:]
            if len(rest) > _LONGEST_LINE:
                if request.resource != "pods/log":
                    raise _unreachable(request, "a line is longer than the client takes")
                yield bytes(rest)
                rest.clear()
        if rest:
            yield bytes(rest)
