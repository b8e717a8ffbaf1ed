"""The published client in its own environment, asked over pipes: `judge.py` says what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.world import Api

PYTHON = Path(__file__).resolve().parents[2] / ".demo" / "sdk" / "bin" / "python"
HOW_TO_GET = "the published client isn't installed; `make test` does it"

# By HTTP status, whatever the body is; from 500 on ServiceException.
_EXCEPTIONS = {
    400: "BadRequestException",
    401: "UnauthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    409: "ConflictException",
}


@dataclass(frozen=True)
class Verdict:
    """What the client made of one answer, as `judge.py` tells it."""

    told: dict[str, Any]

    def value(self, kind: str, status: int | None = None) -> Any:
        """The content of a success of that type (and HTTP status, for an operation)."""
        assert "raised" not in self.told, f"the client raised {self.told}"
        assert self.told["type"] == kind, self.told
        assert self.told.get("status") == status, self.told
        return self.told["value"]

    def refused(self, status: int, code: str, *, defined: bool = True) -> dict[str, Any]:
        """The error object of a refusal that the client could read: as the very model of its code, or as an error that
        the operation doesn't declare."""
        assert self.told.get("raised") == _EXCEPTIONS.get(status, "ServiceException"), self.told
        assert self.told["status"] == status, self.told
        error = self.told["error"]
        assert error is not None, f"the client couldn't read the error: {self.told['text']}"
        found = (error["code"], error["defined"], error["status"])
        assert found == (code, defined, status), self.told
        assert self.told["model"] == (_model(code) if defined else "UndefinedApiError"), self.told
        return dict(error)

    def raised(self, kind: str) -> dict[str, Any]:
        """What is told of an exception of the workflows layer."""
        assert self.told.get("raised") == kind, self.told
        return self.told


class Judge:
    """One process of the client; asked by one thread at a time."""

    def __init__(self, config: Path) -> None:
        """`config` becomes its `$ANYCLOUD_DIR`."""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [str(PYTHON), str(Path(__file__).with_name("judge.py"))],
            env={"PATH": os.environ["PATH"], "HOME": str(config), "ANYCLOUD_DIR": str(config)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def operation(self, api: Api, operation: str, /, **args: Any) -> Verdict:
        """A generated operation. Bodies are given as JSON under the client's argument name."""
        caller = {"url": api.url, "token": api.token}
        return self._ask({"operation": operation, "args": args, "api": caller})

    def operations(self) -> list[str]:
        """Names of the generated operations, sorted."""
        return list(self._ask({"list": "operations"}).value("list"))

    def make(self, kind: str, keep: str, env: dict[str, str] | None = None, /, **args: Any) -> Verdict:
        """An object of the workflows layer, kept in the client's process under a name."""
        return self._ask({"make": kind, "args": args, "env": env or {}, "keep": keep})

    def on(self, name: str, method: str, /, keep: str | None = None, **args: Any) -> Verdict:
        """A method of a kept object; `keep` keeps what it returns."""
        kept = {"keep": keep} if keep else {}
        return self._ask({"on": name, "call": method, "args": args, **kept})

    def _ask(self, request: dict[str, Any]) -> Verdict:
        assert self._process.stdin and self._process.stdout
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BaseException:  # a test that ran out of time: its answer must not be taken for the next one
                self._process.kill()
                raise
        assert line, f"the client's process ended with {self._process.wait(10)}"
        return Verdict(json.loads(line))


def kept(name: str) -> dict[str, str]:
    """Stands for a kept object among the arguments of `Judge.on`."""
    return {"$kept": name}


def _model(code: str) -> str:
    """Of `CLUSTER_NOT_FOUND`, `ClusterNotFoundApiError`."""
    return "".join(word.capitalize() for word in code.split("_")) + "ApiError"
