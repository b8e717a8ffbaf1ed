"""GitHub's device flow, and the trade of a GitHub sign-in for a hosted API's own token."""

from __future__ import annotations

import http.client
import json
import os
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from anycloud_cli import VERSION
from anycloud_cli import target as targets
from anycloud_cli.client import Client, connect, path
from anycloud_cli.clock import Clock
from anycloud_cli.failures import ApiRefusal, Failure
from anycloud_cli.patience import Patience
from anycloud_cli.session import Session

_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_SCOPE: Final = "read:packages"  # private images; who somebody is needs no scope
_TIMEOUT_SECONDS: Final = 30.0
_BOOT_SECONDS: Final = 60.0  # a hosted API whose machine was just started again


@dataclass(frozen=True)
class GitHub:
    """Where GitHub is: `web` signs people in, `api` tells who they are; `client_id` names our OAuth app there."""

    web: str
    api: str
    client_id: str


@dataclass(frozen=True)
class Code:
    """What a person types at `page`. The flow ends after `lasts` seconds and is asked about every `interval`."""

    device: str
    user: str
    page: str
    lasts: float
    interval: float


def start(github: GitHub) -> Code:
    """Begins a device flow. Raises Failure."""
    answer = _post(f"{github.web}/login/device/code", {"client_id": github.client_id, "scope": _SCOPE})
    try:
        lasts, interval = float(answer["expires_in"]), float(answer.get("interval", 5))
        return Code(answer["device_code"], answer["user_code"], answer["verification_uri"], lasts, interval)
    except (KeyError, TypeError, ValueError):
        raise Failure(f"GitHub didn't begin a sign-in: {_said(answer)}.") from None


def finish(github: GitHub, code: Code, clock: Clock) -> str:
    """The token, once the person has approved. GitHub's refusals come with status 200. Raises Failure."""
    form = {"client_id": github.client_id, "device_code": code.device, "grant_type": _GRANT}
    begun, interval = clock.monotonic(), code.interval
    while clock.monotonic() + interval - begun <= code.lasts:
        clock.sleep(interval)
        answer = _post(f"{github.web}/login/oauth/access_token", form)
        token, error = answer.get("access_token"), answer.get("error")
        if isinstance(token, str) and token:
            return token
        if error == "slow_down":
            interval = float(answer.get("interval") or interval + 5)
        elif error == "access_denied":
            raise Failure("The sign-in was refused at GitHub; nothing was changed.")
        elif error in ("expired_token", "token_expired"):
            break
        elif error != "authorization_pending":
            raise Failure(f"GitHub ended the sign-in: {_said(answer)}.")
    raise Failure("The code was not used in time; run `anycloud login` again.")


def who(github: GitHub, token: str) -> str:
    """The login that a token belongs to. Raises Failure."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    login = _call("GET", f"{github.api}/user", None, headers).get("login")
    if not isinstance(login, str):
        raise Failure("GitHub doesn't know the sign-in that it has just given; run `anycloud login` again.")
    return login


def exchange(session: Session, url: str) -> str:
    """Trades the GitHub sign-in of this user for a token of the hosted API at `url`. Raises Failure."""
    if url.startswith("http://") and not targets.is_on_this_machine(url):
        raise Failure(f"{url} isn't https, and your GitHub sign-in doesn't travel in clear.")
    sign_in = targets.github_token(session.directory, os.environ)
    if sign_in is None:
        raise Failure("No GitHub sign-in is here; run `anycloud login`, or put a GitHub token into GITHUB_TOKEN.")
    client = Client(targets.Target(url, sign_in))
    patience = Patience(session.clock, _BOOT_SECONDS, session.complain)
    try:  # asking twice leaves one token: the newest
        answer = patience.read(lambda: client.request("POST", path("api-token")))
    except ApiRefusal as refusal:
        if refusal.code != "UNAUTHORIZED":
            raise
        raise Failure(f"{url} refused your GitHub sign-in: {refusal.message}") from refusal
    token: str = answer["token"]
    return token


def _post(url: str, form: dict[str, str]) -> dict[str, Any]:
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    return _call("POST", url, urlencode(form).encode(), headers)


def _call(method: str, url: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = connect(url, _TIMEOUT_SECONDS)
    try:
        connection.request(method, parts.path, body, {"User-Agent": f"anycloud-cli/{VERSION}", **headers})
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Failure(f"GitHub at {parts.netloc} gave no usable answer ({type(error).__name__}); try again.") from error
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}


def _said(answer: dict[str, Any]) -> str:
    text = answer.get("error_description") or answer.get("error") or answer.get("message") or "no reason given"
    return str(text).rstrip(".")
