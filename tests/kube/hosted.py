"""The whole product on the real control plane: the hosted API under the ServiceAccount that its chart made.

The four services and Envoy are processes here, as the supervisor starts them in a Pod, with what the chart mounts: the
release values of its Secret and the account's token. The clouds are the sandbox's; its node agent makes their machines
Nodes of the real API server and runs the Pods that are bound to them.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.contract.world import CREDENTIAL, SIGN_IN, Api
from tests.kube import helm
from tests.support.control_plane import HOST, ControlPlane, free_port
from tests.support.installation import until
from tests.support.sandbox import Sandbox

Json = dict[str, Any]

ACCOUNT = "anycloud-api"
PODS = f"/api/v1/namespaces/{helm.NAMESPACE}/pods"
RELEASE_SECRET = f"/api/v1/namespaces/{helm.NAMESPACE}/secrets/anycloud-api-release"
START_SECONDS = 90.0


class Hosted:
    """`with Hosted(directory, plane) as hosted:`; whoever makes it says how the chart gets installed."""

    def __init__(self, directory: Path, plane: ControlPlane, install: Callable[[Json], object]) -> None:
        self.directory, self.plane, self._install = directory, plane, install
        self.url = f"http://{HOST}:{free_port()}"
        self.sandbox = Sandbox(directory)
        self.token = ""  # of the account, as the kubelet would ask for it on behalf of the API's Pod
        self._api: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.sandbox.start_world()
            self._install(self.values())
            self._mount_release()
            self.mount_account()
            self.sandbox.start_agent()
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
        """Returns once the API answers."""
        self._api = self._run()
        until(self._serves, START_SECONDS)

    def end(self) -> int:
        """Ends the API as the kubelet does; its exit code."""
        return _end(self._api)

    def stop(self) -> None:
        _end(self._api)
        self.sandbox.stop()

    def values(self, **changes: Any) -> Json:
        """What the installer writes for this cluster."""
        system = self.plane.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
        about = {"id": "cl-abcdefghijkl", "name": "home", "identity": system, "address": HOST}
        given = helm.values(**changes)
        user = self.sandbox.call("GET", "/github/user", headers={"Authorization": f"Bearer {SIGN_IN}"})
        given["release"] |= {
            "cluster": {**about, "endpoint": self.plane.endpoint, "ca": self.plane.ca},
            "api": {**given["release"]["api"], "url": self.url},
            "owner": {"userId": str(user["id"]), "username": user["login"]},
            "sandboxUrl": self.sandbox.url,
        }
        return given

    def sign_in(self) -> Api:
        """The API as its owner calls it, once its services know each other: for a moment they answer 503."""
        api = Api(self.url, str(Api(self.url, SIGN_IN).ask("POST", "/api-token")["token"]))
        for path in ("/node-pools", "/deployments"):
            until(lambda path=path: api.call("GET", path).status_code == 200, START_SECONDS)  # type: ignore[misc]
        return api

    def bought(self) -> list[Json]:
        """All machines and networks that its cloud ever gave it."""
        return [thing for kind in ("Machines", "Networks") for thing in self._listed(kind)]

    def _listed(self, kind: str) -> list[Json]:
        account = {"x-sandbox-key": CREDENTIAL["accessKeyId"], "x-sandbox-secret": CREDENTIAL["secretAccessKey"]}
        found = self.sandbox.cloud(f"List{kind}", {"tags": {}}, headers=account)
        return list(found[kind.lower()])

    def data_files(self) -> list[Path]:
        """All that it keeps."""
        return [path for path in (self.directory / "data").rglob("*") if path.is_file()]

    def log(self) -> str:
        return (self.directory / "api.log").read_text(errors="replace")

    def _bound_token(self) -> str:
        def pods() -> list[Json]:
            return list(self.plane.call("GET", PODS)["items"])

        pod = until(pods, 30)[0]["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
        path = f"/api/v1/namespaces/{helm.NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        spec = {"expirationSeconds": 3607, "boundObjectRef": bound}
        return str(self.plane.call("POST", path, {"spec": spec})["status"]["token"])

    def mount_account(self) -> None:
        """The volume `account` of the API's Pod."""
        self.token = self._bound_token()
        self._write("token", self.token.encode())
        self._write("ca.crt", self.plane.ca.encode())

    def _mount_release(self) -> None:
        secret = self.plane.call("GET", RELEASE_SECRET)
        self._write("values.json", base64.b64decode(secret["data"]["values.json"]))

    def _write(self, name: str, content: bytes) -> None:
        path = self.directory / name
        path.touch(0o600)
        path.write_bytes(content)

    def _run(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANYCLOUD_")}
        environment |= {
            "ANYCLOUD_DATA_DIR": str(self.directory / "data"),
            "ANYCLOUD_PUBLIC_URL": self.url,
            "ANYCLOUD_RELEASE_VALUES": str(self.directory / "values.json"),
            "ANYCLOUD_SERVICEACCOUNT_DIR": str(self.directory),
            "KUBERNETES_SERVICE_HOST": HOST,
            "KUBERNETES_SERVICE_PORT": str(self.plane.port),
        }
        with (self.directory / "api.log").open("ab") as file:
            command = [sys.executable, "-m", "anycloud_supervisor", "hosted"]
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=self.directory, env=environment
            )

    def _serves(self) -> bool:
        if self._api is None or self._api.poll() is not None:
            raise RuntimeError(f"the API ended:\n{self.log()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _end(process: subprocess.Popen[bytes] | None) -> int:
    if process is None:
        return 0
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
