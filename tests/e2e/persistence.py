"""The flow of the demo, typed by somebody who doesn't give up: what failed for a killed process is typed again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.installation import KEYS, SDK_PYTHON, Done, Installation

CLUSTER, CREDENTIAL, POOL, DEPLOYMENT = "tough", "aws", "pool", "worker"
IMAGE = "e2e/worker:1"
PLACE = ["--credentials", CREDENTIAL, "--region", "us-east-1"]
VMS = 2
_PATIENCE = 120.0
_ABSENT = ("There is no ", "doesn't exist")

Look = Callable[[], None]
"""Called between any two looks at what was typed: where kills come from."""


@dataclass
class Persistence:
    """Each method returns once what it names is so. `meanwhile` is called all the time."""

    installation: Installation
    ledger: Path
    meanwhile: Look = field(default=lambda: None)
    last: tuple[tuple[str, ...], Done] | None = None
    attempted: bool = False
    standing: bool = False

    def make(self) -> None:
        """From a running installation to a Deployment that takes Jobs; then it is `standing`."""
        self.attempted = True
        self.use("local")
        self.image()
        self.credential()
        self.made("cluster", CLUSTER, *PLACE, "--vm-type", "t3.large")
        self.use(self.hosted_url())
        self.credential()
        self.made("node-pool", POOL, *PLACE, "--vm-type", "m5.large", "--min-vms", str(VMS), "--max-vms", str(VMS))
        self.made("deployment", DEPLOYMENT, IMAGE, "--node-pool", POOL)
        self.standing = True

    def unmake(self) -> None:
        """Everything back, in the order that is demanded."""
        self.standing = False
        self.use(self.hosted_url())
        self.gone("deployment", DEPLOYMENT)
        self.gone("node-pool", POOL)
        self.use("local")
        self.gone("cluster", CLUSTER, "--no-wait")

    def image(self) -> None:
        self.ledger.mkdir(exist_ok=True)
        worker = str(Path(__file__).with_name("worker.py"))
        self.installation.image(IMAGE, [str(SDK_PYTHON), worker, str(self.ledger)])

    def use(self, url: str) -> None:
        self._until(lambda: self._try("api", "use", url).code == 0)

    def credential(self) -> None:
        words = ("credentials", "new", CREDENTIAL, "--provider", "aws", "--overwrite")
        self._until(lambda: self._try(*words, env=KEYS).code == 0)

    def hosted_url(self) -> str:
        found: list[str] = []

        def look() -> bool:
            seen = self._object("cluster", CLUSTER)
            found.append((seen or {}).get("managementApiUrl") or "")
            return bool(found[-1])

        self.use("local")
        self._until(look)
        return found[-1]

    def made(self, group: str, name: str, *words: str) -> None:
        """Creates something, unless it is there already, and waits until it runs."""

        def look() -> bool:
            seen = self._object(group, name)
            if seen is None:
                return False
            if not seen or _state(seen) == "terminated":
                self._try(group, "create", name, *words)
                return False
            assert _state(seen) != "failed", f"{group} {name} failed: {json.dumps(seen, indent=1)}"
            return _state(seen) == "running"

        self._until(look)

    def gone(self, group: str, name: str, *words: str) -> None:
        """Deletes something, and waits until nothing of it is left. Its name stays looked up by id."""
        known: list[str] = []

        def look() -> bool:
            seen = self._object(group, known[0] if known else name)
            if seen is None:
                return False
            known[:] = [seen["id"]]
            status = seen.get("status") or seen
            if status["state"] == "terminated":
                return not status["releasing"]
            self._try(group, "delete", name, *words)
            return False

        self._until(look)

    def submit(self, jobs: list[str]) -> None:
        script = Path(__file__).with_name("submit.py")
        self.installation.python(script, DEPLOYMENT, *jobs)

    def wait(self, jobs: list[str]) -> None:
        """Until all are completed. Where the state can't be observed, since the API is away, it is asked anew."""

        def look() -> bool:
            done = self._try("wait", *jobs, "--timeout", f"{_PATIENCE:.0f}s")
            assert done.code in (0, 2), f"{done.stdout}{done.stderr}"
            return done.code == 0

        self._until(look)

    def lines(self) -> list[dict[str, Any]]:
        """What the worker's processes wrote down, in order."""
        path = self.ledger / "lines"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def begun(self, job: str) -> bool:
        return any((line["what"], line["job"]) == ("begin", job) for line in self.lines())

    def _object(self, group: str, name: str) -> dict[str, Any] | None:
        """As the API shows it; {} when there is none; None when nobody answers."""
        done = self._try(group, "status", name, "--json")
        if done.code == 0:
            found: dict[str, Any] = next(iter(done.json.values()))
            return found
        return {} if any(words in done.stderr for words in _ABSENT) else None

    def _try(self, *words: str, env: dict[str, str] | None = None) -> Done:
        done = self.installation.cli(*words, code=None, env=env)
        self.last = (words, done)
        return done

    def _until(self, look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not look():
            self.meanwhile()
            assert time.monotonic() < deadline, f"the flow doesn't go on: {self.last}"
            time.sleep(0.2)


def _state(seen: dict[str, Any]) -> str:
    return str(seen["state"] if "state" in seen else (seen["status"] or {}).get("state"))
