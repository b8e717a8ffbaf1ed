"""A whole installation as its user has it: started, asked and stopped with `anycloud`, in a directory of its own.

    with Installation(tmp_path / "anycloud") as installation:
        installation.start()
        installation.cli("cluster", "list")

Its port is below those that the system gives to outgoing connections. Whatever runs for it has its directory in the
command line or in the environment; so every process is found, those that no record names too, and nobody else's is.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import pytest
from anycloud_supervisor.identity import Handle, Identity

ROOT = Path(__file__).resolve().parents[2]
ANYCLOUD = Path(sys.executable).with_name("anycloud")
SDK_PYTHON = ROOT / ".demo" / "sdk" / "bin" / "python"
"""The published client's environment."""

KEYS = {"AWS_ACCESS_KEY_ID": "111122223333.e2e", "AWS_SECRET_ACCESS_KEY": "sandbox"}
SERVICES = ("cluster", "nodepool", "deployment", "release")

_OURS = ("ANYCLOUD_", "AWS_", "AZURE_", "GOOGLE_", "API_URL", "GITHUB_TOKEN", "KUBEBUILDER_ASSETS")
_LOWEST_PORT, _HIGHEST_PORT = 20000, 32767

T = TypeVar("T")


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """All of stdout as one JSON document; anything else there is an error."""
        return json.loads(self.stdout)

    @property
    def records(self) -> list[Any]:
        """Each line of stdout as a JSON value."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class Process(NamedTuple):
    """A running process, named after its part: `supervisor`, `installer/cluster`, `hosted/envoy`, `worker`, …"""

    name: str
    identity: Identity


class Installation:
    """Ends everything that it started on the way out, also after a failure."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            "ANYCLOUD_DIR": str(directory),
        }

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, *words: str, code: int = 0) -> Done:
        return self.cli("api", "start", "--sandbox", "--port", str(self.port), *words, code=code)

    def cli(
        self,
        *words: str,
        code: int | None = 0,
        env: Mapping[str, str] | None = None,
        seconds: float = 120,
        before: Callable[[], None] | None = None,
    ) -> Done:
        """Runs `anycloud` and sees that it ends with `code`, unless that is None. `before` runs in the new process."""
        done = subprocess.run(
            [str(ANYCLOUD), *words],
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            preexec_fn=before,
        )
        told = f"anycloud {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        assert code is None or done.returncode == code, told
        return Done(done.returncode, done.stdout, done.stderr)

    def ask(self, *words: str) -> Any:
        """The JSON answer of a command."""
        return self.cli(*words, "--json").json

    def python(self, script: Path, *words: str, seconds: float = 120) -> str:
        """What a script prints that uses the published client."""
        command = [str(SDK_PYTHON), str(script), *words]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{script.name} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def state(self) -> dict[str, Any]:
        """The supervisor's state file."""
        found: dict[str, Any] = json.loads((self.directory / "data/supervisor/state.json").read_text())
        return found

    def world(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """A call of the sandbox's own API; a sandbox that is being restarted is given time."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.state()['sandboxUrl']}{path}"

        def once() -> Any:
            request = urllib.request.Request(url, data, method=method, headers=dict(headers or {}))
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError:
                raise
            except (OSError, ValueError):
                return None

        return until(once, 20)

    def bought(self, kind: str, account: str = "111122223333") -> list[dict[str, Any]]:
        """All `machines`, `networks`, `addresses` or `buckets` in the account, terminated machines too."""
        keys = {"x-sandbox-key": f"{account}.e2e", "x-sandbox-secret": "sandbox"}
        path = f"/cloud/AWS/List{kind.capitalize()}"
        found: list[dict[str, Any]] = self.world("POST", path, {"tags": {}}, keys)[kind]
        return found

    def image(self, reference: str, command: list[str]) -> None:
        """What pushing an image is elsewhere."""
        manifest = {"accelerator": "none", "env": {"PYTHONUNBUFFERED": "1"}, "command": command, "labels": {}}
        self.world("POST", "/registry/images", {"reference": reference, "manifest": manifest})

    def processes(self) -> list[Process]:
        """Everything that runs for this installation now."""
        return list(_processes(str(self.directory)))

    def process(self, name: str) -> Identity | None:
        """The one that runs under a name, or None."""
        return next((process.identity for process in self.processes() if process.name == name), None)

    def end(self) -> None:
        """Stops as the user would, and then ends, one by one, whatever is still there."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.cli("api", "stop", code=None)
        for _ in range(5):  # an end may let something else begin: a shim outlives its agent
            left = self.processes()
            if not left:
                return
            for process in left:
                kill(process.identity)
            time.sleep(0.2)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One for all tests of a module, not started yet."""
    if not SDK_PYTHON.exists():
        pytest.skip("needs the published client in .demo/sdk: `make .demo/sdk/.installed`")
    with Installation(tmp_path_factory.mktemp("e2e") / "anycloud") as made:
        yield made


def kill(identity: Identity, number: signal.Signals = signal.SIGKILL) -> None:
    """Signals this very process, if it is still there, and returns when SIGKILL has worked."""
    handle = Handle.open(identity)
    if handle is None:
        return
    try:
        handle.signal(number)
        if number == signal.SIGKILL:
            handle.wait(5)
    finally:
        handle.close()


@contextmanager
def full_disk(process: Identity, size: int = 4096) -> Iterator[None]:
    """While inside, no file of this process can be written beyond `size` bytes."""
    limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)


def until(look: Callable[[], T | None], seconds: float, pause: float = 0.1) -> T:
    """The first answer that is true. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(pause)
    return found


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has now."""
    for port in random.SystemRandom().sample(range(_LOWEST_PORT, _HIGHEST_PORT), 50):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {_LOWEST_PORT} and {_HIGHEST_PORT}")


def _processes(directory: str) -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        identity = Identity.of(int(entry.name))
        try:
            words = entry.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            variables = entry.joinpath("environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if identity is not None and words and any(directory in text for text in (*words, *variables)):
            yield Process(_name(words, variables, entry), identity)


def _name(words: list[str], variables: list[str], entry: Path) -> str:
    """What a process is. One that isn't known is named by its command."""
    program = Path(words[0]).name
    module = words[2] if program.startswith("python") and words[1:2] == ["-m"] else ""
    installer_or_hosted = next((text[14:] for text in variables if text.startswith("ANYCLOUD_MODE=")), "")
    if module == "anycloud_supervisor":
        return {"local": "supervisor", "hosted": "hosted/supervisor"}.get(words[3], "cli")
    if module == "anycloud_sandbox":
        return "sandbox" if words[3] == "serve" else "nodeagent"
    if module == "anycloud_release.migrate":
        return f"{installer_or_hosted}/migrate"
    if module.removeprefix("anycloud_") in SERVICES:
        return f"{installer_or_hosted}/{module.removeprefix('anycloud_')}"
    if program == "envoy":
        return f"{installer_or_hosted}/envoy"
    if any(word.endswith("/shim.py") for word in words):
        return f"shim of {_below(entry)}"
    if any(word.endswith("/worker.py") for word in words):
        return "job" if "run" in words else "worker"
    return " ".join(words)


def _below(entry: Path) -> str:
    """What a shim keeps: the part of its first child."""
    try:
        child = entry.joinpath("task", entry.name, "children").read_text().split()[0]
        words = Path("/proc", child, "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        return _name(words, [], Path("/proc", child))
    except (OSError, IndexError):
        return "nothing"
