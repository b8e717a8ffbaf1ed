"""Whose credential it is, as the sandbox says it."""

from __future__ import annotations

from anycloud_providers.sandbox.calls import Calls


class SandboxIdentity:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def account(self) -> str:
        return await self._calls.call("cloud", "Identity", {}, lambda answer: str(answer["account"]))
