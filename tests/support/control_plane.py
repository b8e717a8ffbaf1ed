"""A real Kubernetes control plane on 127.0.0.1, as K3s sets one up: `with ControlPlane(directory) as plane: …`.

etcd (or kine on SQLite, K3s's own store), kube-apiserver, kube-controller-manager and kube-scheduler as processes of
the test; K3s's helm-controller beside them on request. There is no kubelet: Pods stay Pending unless somebody joins.
"""

from __future__ import annotations

import base64
import json
import random
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import yaml

from tests.kube.assets.location import MissingPrograms, how_to_get, locate, missing
from tests.kube.certificates import Authority, key_pem, new_key, public_pem

Json = dict[str, Any]
Datastore = Literal["etcd", "kine"]

HOST = "127.0.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
BOOTSTRAP_GROUP = "system:bootstrappers:k3s:default-node-token"
_PROGRAMS = {
    "etcd": ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"],
    "kine": ["kine", "kube-apiserver", "kube-controller-manager", "kube-scheduler"],
}
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0

# Who signs in with a token of his own, so that the audit log tells the callers apart.
_USERS = {
    "admin": ("system:admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "helm": ("system:k3s-helm-controller", "system:masters"),
}

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

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class Refused(Exception):
    """An error answer of the API server: HTTP status and Status object."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status} {body.get('reason')}: {body.get('message')}")
        self.status, self.body = status, body


class ControlPlane:
    """`endpoint` (https), `ca` (PEM) and `token` (the admin's) are what clients need. MissingPrograms when it can't.

    `host` is the address that the API server listens on; `flags` are further ones for a program, by its name."""

    def __init__(
        self,
        directory: Path,
        datastore: Datastore = "etcd",
        host: str = HOST,
        flags: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if absent := missing(_PROGRAMS[datastore]):
            raise MissingPrograms(how_to_get(absent))
        self.directory = directory
        self.host = host
        self._flags = dict(flags or {})
        self.datastore: Datastore = datastore
        self.port = free_port()
        self.endpoint = f"https://{host}:{self.port}"
        self.authority = Authority("k3s-server-ca")
        self.ca = self.authority.pem
        self._tokens = {name: secrets.token_hex(16) for name in _USERS}
        self.token = self._tokens["admin"]
        self.audit_log = directory / "audit.log"
        self._etcd_port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tls = ssl.create_default_context(cadata=self.ca)

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
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.kubeconfig().exists():
            self._write_files()
        self._start_store()
        self.start_api_server()
        self._start_controllers()
        for name, role, kind, subject in _BINDINGS:
            self.ensure(_bindings_path(), cluster_role_binding(name, role, kind, subject))
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self._until("the controllers", lambda: self.find(f"{accounts}/default") is not None)

    def stop(self) -> None:
        for name in reversed(list(self._processes)):
            self.end(name)

    def start_api_server(self) -> None:
        """Returns once it is ready, on the same port as before."""
        self._run("kube-apiserver", self._api_server_flags())
        self._until("the API server", self._ready)

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

    def start_helm_controller(self, job_image: str) -> None:
        """K3s's own: makes the HelmChart kinds and an install Job of `job_image` for each HelmChart."""
        flags = [f"--kubeconfig={self.kubeconfig('helm')}", f"--default-job-image={job_image}"]
        self._run("helm-controller", flags)
        kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/helmcharts.helm.cattle.io"
        self._until("the HelmChart kind", lambda: _established(self.find(kinds)))

    def forget_history(self) -> None:
        """Makes every resource version from before too old to watch from, by compaction and a restart."""
        self.end("kube-apiserver")
        if self.datastore == "etcd":
            latest = self._etcd("range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"]
            self._etcd("compaction", {"revision": latest, "physical": True})
        self.start_api_server()

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.directory / f"{user}.kubeconfig"

    # The admin's calls

    def call(self, method: str, path: str, body: Json | None = None, token: str | None = None) -> Json:
        """The JSON of a 2xx answer. Raises Refused, or OSError when there is no answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.endpoint + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._tls) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, _json(error.read())) from error
        return _json(text)

    def find(self, path: str) -> Json | None:
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def ensure(self, path: str, body: Json) -> Json:
        """Creates an object of that collection, unless there is one of its name."""
        return self.find(f"{path}/{body['metadata']['name']}") or self.call("POST", path, body)

    def service_account(self, namespace: str, name: str, rules: Sequence[Json] = (), seconds: int = 3600) -> str:
        """A token of a ServiceAccount that may do in the whole cluster what these rules of a ClusterRole say."""
        self.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        if rules:
            role = {"metadata": {"name": f"{namespace}-{name}"}, "rules": list(rules)}
            self.ensure("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
            binding = cluster_role_binding(
                f"{namespace}-{name}", f"{namespace}-{name}", "ServiceAccount", name, namespace
            )
            self.ensure(_bindings_path(), binding)
        return self.account_token(namespace, name, seconds)

    def account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.call("POST", path, {"spec": {"expirationSeconds": seconds}})
        return str(answer["status"]["token"])

    def bootstrap_token(self, description: str = "test") -> str:
        """`<id>.<secret>` with which one machine may join, as `k3s token create` makes it."""
        token_id, word = secrets.token_hex(3), secrets.token_hex(8)
        data = {"token-id": token_id, "token-secret": word, "description": description}
        data |= {"usage-bootstrap-authentication": "true", "auth-extra-groups": BOOTSTRAP_GROUP}
        metadata = {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"}
        body = {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        self.call("POST", "/api/v1/namespaces/kube-system/secrets", body)
        return f"{token_id}.{word}"

    def requests(self) -> list[Json]:
        """The audit log: events of audit.k8s.io/v1, one an answered request; `user` is empty where nobody signed in."""
        return [json.loads(line) for line in self.audit_log.read_text().splitlines() if line.endswith("}")]

    # Processes

    def _run(self, name: str, flags: Sequence[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [locate(name), *flags, *self._flags.get(name, ())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )

    def _until(self, what: str, done: Callable[[], bool]) -> None:
        end = time.monotonic() + _START_SECONDS
        while not done():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}:\n{self._tail(name)}")
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not come within {_START_SECONDS:.0f} s; see {self.directory}")
            time.sleep(0.1)

    def _tail(self, name: str) -> str:
        return "\n".join((self.directory / f"{name}.log").read_text(errors="replace").splitlines()[-10:])

    def _ready(self) -> bool:
        try:
            request = urllib.request.Request(
                f"{self.endpoint}/readyz", headers={"Authorization": f"Bearer {self.token}"}
            )
            with urllib.request.urlopen(request, timeout=5, context=self._tls) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _start_store(self) -> None:
        if self.datastore == "kine":
            database = f"sqlite://{self.directory}/state.db?_journal=WAL&cache=shared&_busy_timeout=30000"
            address = f"tcp://{HOST}:{self._etcd_port}"
            self._run("kine", [f"--endpoint={database}", f"--listen-address={address}", "--metrics-bind-address=0"])
            return
        url = f"http://{HOST}:{self._etcd_port}"
        flags = [f"--data-dir={self.directory / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"]
        flags += [
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls=http://{HOST}:0",
        ]
        self._run("etcd", flags)

    def _etcd(self, action: str, body: Json) -> Json:
        url = f"http://{HOST}:{self._etcd_port}/v3/kv/{action}"
        with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as answer:
            return _json(answer.read())

    def _api_server_flags(self) -> list[str]:
        at = self.directory
        return [
            f"--etcd-servers=http://{HOST}:{self._etcd_port}",
            f"--bind-address={self.host}",
            f"--secure-port={self.port}",
            "--endpoint-reconciler-type=none",  # it would refuse a loopback address
            f"--tls-cert-file={at / 'server.pem'}",
            f"--tls-private-key-file={at / 'server.pem'}",
            f"--client-ca-file={at / 'ca.crt'}",
            f"--token-auth-file={at / 'tokens.csv'}",
            "--enable-bootstrap-token-auth",
            "--anonymous-auth=false",
            f"--service-account-issuer={ISSUER}",
            f"--api-audiences={ISSUER},k3s",
            f"--service-account-key-file={at / 'accounts.pub'}",
            f"--service-account-signing-key-file={at / 'accounts.key'}",
            "--service-cluster-ip-range=10.43.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            f"--kubelet-client-certificate={at / 'kubelet-client.pem'}",
            f"--kubelet-client-key={at / 'kubelet-client.pem'}",
            "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
            "--profiling=false",
            f"--audit-policy-file={at / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
        ]

    def _start_controllers(self) -> None:
        at = self.directory
        shared = ["--leader-elect=false", "--secure-port=0", "--profiling=false"]
        flags = [
            f"--kubeconfig={self.kubeconfig('controllers')}",
            "--controllers=*,tokencleaner,-service,-route,-cloud-node-lifecycle",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={at / 'accounts.key'}",
            f"--root-ca-file={at / 'ca.crt'}",
            f"--cluster-signing-cert-file={at / 'ca.crt'}",
            f"--cluster-signing-key-file={at / 'ca.key'}",
            "--allocate-node-cidrs",
            "--cluster-cidr=10.42.0.0/16",
            # For speed only.
            "--pvclaimbinder-sync-period=2s",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]
        self._run("kube-controller-manager", [*flags, *shared])
        self._run("kube-scheduler", [f"--kubeconfig={self.kubeconfig('scheduler')}", *shared])

    def _write_files(self) -> None:
        accounts = new_key()
        users = (f'{self._tokens[key]},{user},{user},"{group}"' for key, (user, group) in _USERS.items())
        files = {
            "ca.crt": self.ca,
            "ca.key": key_pem(self.authority.key),
            # With the CA, so that machines that join see what their token's checksum is of.
            "server.pem": self.authority.issue("kube-apiserver", hosts=sorted({HOST, self.host, "localhost"}))
            + self.ca,
            "kubelet-client.pem": self.authority.issue("kube-apiserver"),
            "accounts.key": key_pem(accounts),
            "accounts.pub": public_pem(accounts),
            "tokens.csv": "\n".join(users) + "\n",
            "audit-policy.yaml": json.dumps(_AUDIT_POLICY),
        }
        files |= {self.kubeconfig(user).name: self._kubeconfig(user) for user in _USERS}
        for name, text in files.items():
            (self.directory / name).touch(0o600)
            (self.directory / name).write_text(text)

    def _kubeconfig(self, user: str) -> str:
        cluster = {"server": self.endpoint, "certificate-authority-data": base64.b64encode(self.ca.encode()).decode()}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "default", "cluster": cluster}],
            "users": [{"name": "default", "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "current-context": "default",
        }
        return yaml.safe_dump(document)


def free_port() -> int:
    """A free TCP port below those that the kernel hands out by itself, so that no client's socket takes it first."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def cluster_role_binding(name: str, role: str, kind: str, subject: str, namespace: str | None = None) -> Json:
    who: Json = {"kind": kind, "name": subject}
    who |= {"namespace": namespace} if namespace else {"apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [who]}


def _bindings_path() -> str:
    return "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def _established(definition: Json | None) -> bool:
    conditions = ((definition or {}).get("status") or {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _json(text: bytes) -> Json:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {"message": text.decode(errors="replace")}
