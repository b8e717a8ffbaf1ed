"""The control plane: its programs, in their order, and what K3s puts into a fresh cluster."""

from __future__ import annotations

import secrets
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from anycloud_control_plane import files, flags, programs
from anycloud_control_plane.admin import Admin, Json, bindings_path, cluster_role_binding
from anycloud_control_plane.certificates import Authority

Datastore = Literal["etcd", "kine"]

_START_SECONDS = 90.0
_STOP_SECONDS = 20.0

# What K3s grants to joining machines, and to the API server at the kubelets. Certificates of Nodes come from requests
# that the controllers approve, where K3s has a door of its own (/v1-k3s/client-kubelet.crt).
_BINDINGS = [
    ("kube-apiserver-kubelet-admin", "system:kubelet-api-admin", "User", "kube-apiserver"),
    ("join-request", "system:node-bootstrapper", "Group", "system:bootstrappers"),
    (
        "join-approval",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "Group",
        "system:bootstrappers",
    ),
]


class ControlPlane(Admin):
    """`endpoint` (https), `ca` (PEM) and `token` (the admin's) are what clients need.

    `store` is where etcd or kine listens, `host:port`; `more` are further flags for a program, by its name. Tokens that
    aren't given are made. With `bound` no program outlives this process."""

    def __init__(
        self,
        directory: Path,
        locate: Callable[[str], Path],
        datastore: Datastore,
        *,
        host: str,
        port: int,
        store: str,
        authority: Authority | None = None,
        tokens: Mapping[str, str] | None = None,
        audit: bool = True,
        bound: bool = False,
        more: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.directory, self.host, self.port, self.datastore = directory, host, port, datastore
        self.endpoint = f"https://{host}:{port}"
        self.authority = authority or Authority("k3s-server-ca")
        self.ca = self.authority.pem
        self.tokens = {name: secrets.token_hex(16) for name in files.USERS} | dict(tokens or {})
        self.token = self.tokens["admin"]
        self.audit_log = directory / "audit.log"
        self.tls = ssl.create_default_context(cadata=self.ca)
        self._locate, self._store, self._audit, self._bound = locate, store, audit, bound
        self._job_image = ""
        self._more = dict(more or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns once it serves and its controllers work; after a stop, with the objects and keys from before."""
        if not self.kubeconfig("node").exists():
            hosts = sorted({"127.0.0.1", flags.SERVICE_ADDRESS, self.host, "localhost"})
            files.write(self.directory, self.endpoint, hosts, self.authority, self.tokens)
        self.start_program(self.datastore)
        self.start_api_server()
        self.start_program("kube-controller-manager")
        self.start_program("kube-scheduler")
        for name, role, kind, subject in _BINDINGS:
            self.ensure(bindings_path(), cluster_role_binding(name, role, kind, subject))
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self.until("the controllers", lambda: self.find(f"{accounts}/default") is not None)

    def stop(self) -> None:
        for name in reversed(list(self._processes)):
            self.end(name)

    def start_api_server(self) -> None:
        """Returns once it is ready, on the same port as before."""
        self.start_program("kube-apiserver")
        self.until("the API server", self.ready)

    def start_helm_controller(self, job_image: str) -> None:
        """K3s's own: makes the HelmChart kinds and an install Job of `job_image` for each HelmChart."""
        self._job_image = job_image
        self.start_program("helm-controller")
        kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/helmcharts.helm.cattle.io"
        self.until("the HelmChart kind", lambda: _established(self.find(kinds)))

    def start_program(self, name: str) -> None:
        at, audit_log = self.directory, self.audit_log if self._audit else None
        given = {
            "etcd": lambda: flags.etcd(at, self._store),
            "kine": lambda: flags.kine(at, self._store),
            "kube-apiserver": lambda: flags.api_server(at, self.host, self.port, self._store, audit_log),
            "kube-controller-manager": lambda: flags.controllers(at),
            "kube-scheduler": lambda: flags.scheduler(at),
            "helm-controller": lambda: flags.helm_controller(at, self._job_image),
        }[name]()
        command = [str(self._locate(name)), *given, *self._more.get(name, ())]
        command = programs.bound(command) if self._bound else command
        self._processes[name] = programs.start(command, at / f"{name}.log", at)

    def end(self, name: str) -> None:
        """Ends one program by its name; the API server as a crash does, as it would wait for the end of watches."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(signal.SIGKILL if name == "kube-apiserver" else signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ended(self) -> dict[str, int]:
        """Programs that ended by themselves, with their exit codes."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.directory / f"{user}.kubeconfig"

    def ready(self) -> bool:
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            request = urllib.request.Request(f"{self.endpoint}/readyz", headers=headers)  # noqa: S310
            with urllib.request.urlopen(request, timeout=5, context=self.tls) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def until(self, what: str, done: Callable[[], bool]) -> None:
        """Raises RuntimeError when a program ends meanwhile, TimeoutError."""
        end = time.monotonic() + _START_SECONDS
        while not done():
            for name, code in self.ended().items():
                raise RuntimeError(f"{name} ended with {code}:\n{self.last_words(name)}")
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not come within {_START_SECONDS:.0f} s; see {self.directory}")
            time.sleep(0.1)

    def last_words(self, name: str) -> str:
        return "\n".join((self.directory / f"{name}.log").read_text(errors="replace").splitlines()[-10:])


def _established(definition: Json | None) -> bool:
    conditions = ((definition or {}).get("status") or {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
