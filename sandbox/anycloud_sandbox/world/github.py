"""GitHub's device flow: a program shows a code, a person enters it on a page, the program gets a token."""

import html
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

LIFE_SECONDS = 900
PAGE = """<!doctype html><title>Sandbox sign-in</title><form method="post">
<p>{said}</p><label>Code <input name="user_code" value="{code}"></label>
<label>Sign in as <input name="login" value="demo"></label>
<button name="answer" value="yes">Approve</button> <button name="answer" value="no">Refuse</button></form>
"""


class DeviceFlow:
    """Codes live in memory: a restart ends the flows that are under way, as a lost code does."""

    def __init__(self, delay: float) -> None:
        self._codes: dict[str, dict[str, Any]] = {}  # by device code
        self._interval = 1 if delay else 0

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/github/login/device/code", self._start),
            web.post("/github/login/oauth/access_token", self._poll),
            web.get("/github/login/device", self._page),
            web.post("/github/login/device", self._enter),
        ]

    async def _start(self, request: web.Request) -> web.Response:
        if not (await request.post()).get("client_id"):
            return web.json_response({"error": "incorrect_client_credentials"})
        letters = "".join(secrets.choice("BCDFGHJKLMNPQRSTVWXZ") for _ in range(8))
        device, user = secrets.token_hex(20), f"{letters[:4]}-{letters[4:]}"
        self._codes[device] = {"user": user, "until": time.monotonic() + LIFE_SECONDS}
        page = str(request.url.with_path("/github/login/device"))
        answer = {"device_code": device, "user_code": user, "verification_uri": page}
        return web.json_response({**answer, "expires_in": LIFE_SECONDS, "interval": self._interval})

    async def _poll(self, request: web.Request) -> web.Response:
        """GitHub's errors come with status 200."""
        device = str((await request.post()).get("device_code"))
        code = self._codes.get(device)
        if code is None:
            return web.json_response({"error": "incorrect_device_code"})
        if time.monotonic() > code["until"]:
            return web.json_response({"error": "expired_token"})
        if "login" not in code:
            return web.json_response({"error": "authorization_pending"})
        del self._codes[device]
        if code["login"] is None:
            return web.json_response({"error": "access_denied"})
        token = f"ghs_sandbox_{code['login']}"
        return web.json_response({"access_token": token, "token_type": "bearer", "scope": "read:packages"})

    async def _page(self, request: web.Request) -> web.Response:
        return _html("Enter the code that the program shows.", request.query)

    async def _enter(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        login, entered = form.get("login", ""), form.get("user_code", "").strip().upper()
        code = next((code for code in self._codes.values() if code["user"] == entered), None)
        if code is None or re.fullmatch(r"[\w-]+", login) is None:
            return _html("No program waits with that code, or that is no login.", form)
        approved = form.get("answer") != "no"
        code["login"] = login if approved else None
        return _html(f"{'Approved' if approved else 'Refused'}; go back to the program.", {})


def _html(said: str, form: Mapping[str, str]) -> web.Response:
    text = PAGE.format(said=html.escape(said), code=html.escape(form.get("user_code", "")))
    return web.Response(text=text, content_type="text/html")
