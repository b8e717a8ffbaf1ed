"""DNS records and origin certificates: the DNS worker, which in this release is reached in the sandbox only."""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast, get_args
from urllib.parse import quote

from anycloud_common.http_json import Answer, JsonClient, NoAnswer

from anycloud_cluster.domain.ports import Certificate, ErrorKind, OutsideError, SignInRefused

_KINDS: Final = frozenset(get_args(ErrorKind))


class SandboxNames:
    """The worker of the sandbox. A record stands for an address of the sandbox's edge, which it has from its making
    on: here alone the URL of a record is known only once there is the record."""

    def __init__(self, sandbox_url: str) -> None:
        self._http = JsonClient(sandbox_url)

    def url(self, name: str) -> str | None:
        return None

    async def publish(self, name: str, address: str, token: str) -> str:
        body = {"address": address, "proxied": True}
        answer = await self._call("PUT", f"/dns/records/{quote(name)}", token, body)
        return _text(answer.body["record"], "url")

    async def delete(self, name: str, token: str) -> None:
        await self._gone(f"/dns/records/{quote(name)}", token)

    async def sign(self, name: str, request_pem: str, token: str) -> Certificate:
        answer = await self._call("POST", "/dns/certificates", token, {"name": name, "csr": request_pem})
        return Certificate(_text(answer.body, "id"), _text(answer.body, "certificate"))

    async def revoke(self, certificate_id: str, token: str) -> None:
        await self._gone(f"/dns/certificates/{quote(certificate_id)}", token)

    async def close(self) -> None:
        await self._http.close()

    async def _gone(self, path: str, token: str) -> None:
        try:
            await self._call("DELETE", path, token)
        except OutsideError as error:
            if error.kind != "not_found":
                raise

    async def _call(self, method: str, path: str, token: str, body: Any = None) -> Answer:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            answer = await self._http.call(method, path, headers=headers, body=body)
        except NoAnswer as error:
            raise OutsideError("unreachable", f"the DNS worker can't be reached: {error}") from None
        if answer.status == 401:
            raise SignInRefused(f"the DNS worker refused the sign-in: {answer.text('message') or 'HTTP 401'}")
        if not answer.ok:
            _refuse(answer)
        return answer


class NoNames:
    """Outside the sandbox this release has no DNS worker to talk to."""

    def url(self, name: str) -> str | None:
        return f"https://{name}"

    async def publish(self, name: str, address: str, token: str) -> str:
        self._absent()

    async def delete(self, name: str, token: str) -> None:
        self._absent()

    async def sign(self, name: str, request_pem: str, token: str) -> Certificate:
        self._absent()

    async def revoke(self, certificate_id: str, token: str) -> None:
        self._absent()

    async def close(self) -> None:
        return None

    def _absent(self) -> NoReturn:
        text = "this release publishes DNS records in the sandbox only: start the API with --sandbox"
        raise OutsideError("invalid", text)


def _refuse(answer: Answer) -> NoReturn:
    kind = "conflict" if answer.status == 403 else answer.text("class")
    text = f"the DNS worker: {answer.text('message') or f'HTTP {answer.status}'}"
    raise OutsideError(cast(ErrorKind, kind) if kind in _KINDS else "unreachable", text)


def _text(body: Any, key: str) -> str:
    value = body.get(key) if isinstance(body, dict) else None
    if not isinstance(value, str) or not value:
        raise OutsideError("unreachable", "the DNS worker's answer can't be read")
    return value
