"""A whole installation in the sandbox: the local API, a cluster with the API on it, a node pool and Deployments."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from anycloud_sandbox.tokens import TokenSigner

from tests.support.installation import Installation, until

Json = dict[str, Any]

VERSION = "0.1.70"
SIGN_IN = "ghs_sandbox_demo"  # the owner's
GRANTED_SIGN_IN = "ghs_sandbox_friend"
ACCOUNT = "111122223333"
CREDENTIAL = {"cloudProvider": "AWS", "accessKeyId": f"{ACCOUNT}.key", "secretAccessKey": "sandbox"}
PLACE = {"region": "us-east-1", "vmType": "t3.large"}

# The container says what it was told by its environment, and then waits for its end; the tests are its worker.
_TELL = """
env > "$CONTRACT_DIR/$ANYCLOUD_DEPLOYMENT_ID.new"
mv "$CONTRACT_DIR/$ANYCLOUD_DEPLOYMENT_ID.new" "$CONTRACT_DIR/$ANYCLOUD_DEPLOYMENT_ID"
echo told
trap 'kill $!; exit 0' TERM
sleep 100000 &
wait
"""


def connection(headers: dict[str, str], local_address: str | None = None) -> httpx.Client:
    """For plain HTTP: without the certificates that httpx would read each time. `local_address` is where it comes
    from."""
    transport = httpx.HTTPTransport(verify=False, local_address=local_address)
    return httpx.Client(headers=headers, timeout=30, transport=transport)


class Timed(NamedTuple):
    """An answer, and after how many seconds it came."""

    answer: httpx.Response
    seconds: float


@dataclass(frozen=True)
class Api:
    """An API, and a token of a caller for it."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}", "anycloud-client-version": VERSION}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """As a client does it; any answer is an answer."""
        sent = {**self.headers, **headers}
        with connection(sent) as client:
            given = {} if body is None else {"json": body}
            return client.request(method, f"{self.url}/v1{path}", **given)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The JSON of an answer that has to be a success; None when it has no content."""
        answer = self.call(method, path, body, **headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


def timed(api: Api, method: str, path: str, body: Any = None) -> Timed:
    began = time.monotonic()
    answer = api.call(method, path, body)
    return Timed(answer, time.monotonic() - began)


class World:
    """An installation of its own below `directory`; nothing is left of its processes after `stop`."""

    def __init__(self, directory: Path) -> None:
        self.installation = Installation(directory / "anycloud")
        self.cluster: Json = {}
        self.pool: Json = {}
        self.directory = directory
        self._hosted: Api | None = None

    @property
    def told(self) -> Path:
        """Where containers write down their environment, each under the id of its Deployment."""
        return self.directory / "told"

    @property
    def config(self) -> Path:
        """`$ANYCLOUD_DIR`."""
        return self.installation.directory

    @property
    def local(self) -> Api:
        """The installer."""
        url, token = (self.config / name for name in ("local-api-url", "local-api-token"))
        return Api(url.read_text().strip(), token.read_text().strip())

    @property
    def hosted(self) -> Api:
        """The API on the cluster, as its owner calls it."""
        assert self._hosted, "no cluster yet"
        return self._hosted

    def start(self) -> None:
        """The local API, and the sandbox around it."""
        self.told.mkdir()
        self.installation.start()

    def stop(self) -> None:
        self.installation.end()

    def make_cluster(self, name: str = "contract") -> None:
        """A cluster that runs, and the owner's token for the API on it."""
        body = {"name": name, "credentialName": "aws", **PLACE}
        self.local.ask("PUT", "/credentials/aws?overwrite=true", CREDENTIAL)
        self.local.ask("POST", "/clusters", body, **{"anycloud-github-token": SIGN_IN})
        self.cluster = until(lambda: self._running(f"/clusters/{name}", "cluster", self.local), 90)
        self._hosted = Api(self.cluster["managementApiUrl"], self.exchange(SIGN_IN))

    def make_pool(self, name: str = "pool", vms: int = 2) -> None:
        """A node pool of which every VM is there."""
        place = {"region": "us-east-1", "vmTypes": ["m5.large"], "minVmCount": vms, "maxVmCount": vms}
        self.hosted.ask("PUT", "/credentials/aws", CREDENTIAL)
        self.hosted.ask("POST", "/node-pools", {"name": name, "credentialName": "aws", **place})
        self.pool = until(lambda: self._running(f"/node-pools/{name}", "nodePool", self.hosted), 90)

    def make_deployment(self, name: str, **more: Any) -> Json:
        """A Deployment whose container is ready; `worker_environment` says what that is told."""
        body = {"name": name, "image": self.register_image(f"contract/{name}:1"), "nodePool": self.pool["id"], **more}
        made = self.hosted.ask("POST", "/deployments", body)["deployment"]
        return until(lambda: self._ready(made["id"]), 60)

    def register_image(self, reference: str) -> str:
        """An image whose container says what it is told, and waits."""
        manifest = {
            "accelerator": "none",
            "env": {"CONTRACT_DIR": str(self.told)},
            "command": ["/bin/sh", "-c", _TELL],
            "labels": {},
        }
        self.installation.world("POST", "/registry/images", {"reference": reference, "manifest": manifest})
        return reference

    def worker_environment(self, deployment: Json) -> dict[str, str]:
        """What the newest container of the Deployment is told by Anycloud."""
        lines = (self.told / deployment["id"]).read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("ANYCLOUD_"))

    def worker(self, deployment: Json) -> Api:
        """The hosted API, as the newest container of the Deployment calls it now."""
        environment = self.worker_environment(deployment)
        token = Path(environment["ANYCLOUD_WORKLOAD_TOKEN_FILE"]).read_text().strip()
        return Api(environment["ANYCLOUD_API_URL"], token)

    def expired(self, token: str) -> str:
        """The same token of a container, signed by the same cluster, but for a time that is over."""
        state = self.config / "data" / "sandbox" / "world" / "sandbox.sqlite"
        with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as opened:
            [(record,)] = opened.execute("SELECT value FROM doc WHERE space = 'clusters'").fetchall()
        signer = TokenSigner(json.loads(record)["signer"])
        claims = signer.claims(token)
        assert claims is not None, "the cluster signs its tokens with another key"
        return signer.sign({**claims, "exp": int(time.time()) - 60})

    def exchange(self, sign_in: str) -> str:
        """A token of the hosted API for a GitHub sign-in."""
        answer = Api(self.cluster["managementApiUrl"], sign_in).ask("POST", "/api-token")
        return str(answer["token"])

    def _running(self, path: str, key: str, api: Api) -> Json | None:
        found = api.ask("GET", path)[key]
        assert found["state"] != "failed", found["lastError"]
        ready = found.get("capacity", {}).get("readyVmCount")
        return dict(found) if found["state"] == "running" and ready == found.get("minVmCount") else None

    def _ready(self, deployment: str) -> Json | None:
        found = self.hosted.ask("GET", f"/deployments/{deployment}")["deployment"]
        told = (self.told / deployment).exists()
        return dict(found) if told and found["status"]["ready"] else None
