"""The whole product around real Nodes: a real control plane, the sandbox's clouds with real VMs for their machines, and
the API as processes of this computer under the account and role of its chart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from tests.contract.world import CREDENTIAL, SIGN_IN, Api
from tests.kube import helm
from tests.kube.assets.location import locate
from tests.support.control_plane import ControlPlane, free_port
from tests.support.sandbox import Sandbox
from tests.world.assets import images
from tests.world.hypervisor import Hypervisor
from tests.world.surroundings import Surroundings
from tests.world.vm import VM, Network, until

Json = dict[str, Any]

IMAGE = "anycloud-world/worker:1"
ACCOUNT = "anycloud-api"
TREE = Path(__file__).parents[2]

# Short enough to wait for in a test, long enough for a busy computer.
_FLAGS = {"kube-controller-manager": ["--node-monitor-period=1s", "--node-monitor-grace-period=16s"]}


class World:
    """`with World(network) as world`. `seconds` says how long its parts took to start."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.directory = network.host / "world"
        self.directory.mkdir()
        self.seconds: dict[str, float] = {}
        self._parts = ExitStack()
        self._api: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._parts:
            self._start()
            self._parts = self._parts.pop_all()
        return self

    def __exit__(self, *ended: object) -> None:
        self._parts.close()

    def _start(self) -> None:
        began = time.monotonic()
        self.plane = ControlPlane(self.directory / "plane", host=self.network.gateway, flags=_FLAGS)
        self._parts.enter_context(self.plane)
        self.seconds["control plane"] = time.monotonic() - began
        self.sandbox = Sandbox(self.directory, delay=1.0, agent=False)
        self._parts.callback(self.sandbox.stop)
        self.sandbox.start_world()
        self._surroundings = Surroundings(self.directory)
        self.hypervisor = Hypervisor(self.network, self.sandbox.url, self._surroundings, self._register_image())
        self._parts.callback(self.hypervisor.stop)
        self.hypervisor.start()
        self._grant()
        self._parts.callback(self.end_api)
        began = time.monotonic()
        self.start_api()
        self.seconds["API"] = time.monotonic() - began
        self.api.ask("PUT", "/credentials/aws", CREDENTIAL)

    # The product

    def start_api(self) -> None:
        """Returns once the API serves."""
        with (self.directory / "api.log").open("ab") as log:
            self._api = subprocess.Popen(
                [sys.executable, "-m", "anycloud_supervisor", "hosted"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self._environment(),
            )
        until(self._serves, "the API")
        token = Api(self.url, SIGN_IN).ask("POST", "/api-token")["token"]
        self.api = Api(self.url, str(token))
        # Right after the start a service may still be looking for its neighbour, and says so with 503.
        for path in ("/node-pools", "/deployments"):
            until(partial(self._answers, path), path)

    def end_api(self) -> None:
        if self._api is not None and self._api.poll() is None:
            self._api.send_signal(signal.SIGTERM)
            try:
                self._api.wait(60)
            except subprocess.TimeoutExpired:
                self._api.kill()
                self._api.wait()

    def ask_for_pool(self, name: str, vms: int = 1) -> None:
        place = {"region": "us-east-1", "vmTypes": ["m5.large"], "minVmCount": vms, "maxVmCount": vms}
        self.api.ask("POST", "/node-pools", {"name": name, "credentialName": "aws", **place})

    def pool(self, name: str) -> Json:
        return dict(self._get(f"/node-pools/{name}")["nodePool"])

    def wait_for_pool(self, name: str) -> Json:
        """The pool, once all of its VMs have joined."""

        def running() -> Json | None:
            if self.hypervisor.failure:
                raise self.hypervisor.failure
            found = self.pool(name)
            assert found["state"] != "failed", found["lastError"]
            complete = found["capacity"]["readyVmCount"] == found["minVmCount"]
            return found if found["state"] == "running" and complete else None

        return until(running, f"node pool {name}", 0.3)

    def deploy(self, name: str, pool: str, *, wait: bool = True, **more: Any) -> Json:
        """A Deployment of the worker's image, once it is ready."""
        body = {"name": name, "image": IMAGE, "nodePool": pool, **more}
        made = self.api.ask("POST", "/deployments", body)["deployment"]
        return self.wait_for_deployment(made["id"]) if wait else made

    def deployment(self, name: str) -> Json:
        return dict(self._get(f"/deployments/{name}")["deployment"])

    def wait_for_deployment(self, name: str) -> Json:
        def ready() -> Json | None:
            found = self.deployment(name)
            return found if found["status"]["ready"] else None

        return until(ready, f"Deployment {name}", 0.2)

    def remove(self, name: str) -> None:
        self.api.ask("DELETE", f"/deployments/{name}")

    def submit(self, deployment: Json) -> str:
        """Sends a Job; its id."""
        return str(self.api.ask("POST", "/workloads", {"deployment": deployment["id"]})["id"])

    def job(self, job: str) -> Json:
        return dict(self._get(f"/workloads/{job}")["workload"])

    def job_states(self, job: str) -> list[str]:
        """What has happened to the Job."""
        return [str(event["state"]) for event in self._get(f"/workloads/{job}")["events"]]

    def wait_for_job(self, job: str, *states: str) -> Json:
        """The Job, once it is in one of the states; without any, once it is over."""
        wanted = states or ("completed", "failed", "errored", "terminated")

        def there() -> Json | None:
            found = self.job(job)
            return found if found["state"] in wanted else None

        return until(there, f"Job {job} {' or '.join(wanted)}", 0.2)

    # The cluster, as its admin sees it

    def pods(self, deployment: Json) -> list[Json]:
        """The Pods of a Deployment, oldest first."""
        selector = f"labelSelector=anycloud.sh/deployment%3D{deployment['id']}"
        found = self.plane.call("GET", f"/api/v1/pods?{selector}")["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def pod(self, deployment: Json) -> Json:
        """The one Pod of a Deployment."""
        (found,) = self.pods(deployment)
        return found

    def find_pod(self, pod: Json) -> Json | None:
        """The Pod as it is now; None when it is gone or its name is another's."""
        about = pod["metadata"]
        found = self.plane.find(f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}")
        return found if found and found["metadata"]["uid"] == about["uid"] else None

    def node(self, pool: Json) -> Json:
        """The one Node of a pool."""
        (found,) = self.plane.call("GET", f"/api/v1/nodes?labelSelector=anycloud.sh/node-pool%3D{pool['id']}")["items"]
        return dict(found)

    def vm(self, node: Json) -> VM:
        """The VM that is that Node."""
        found = self.hypervisor.named(node["metadata"]["name"])
        assert found is not None
        return found

    def logs(self, deployment: Json, **query: str) -> list[str]:
        """What the newest container printed: from its kubelet through the API server and through ours."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        answer = self.api.call("GET", f"/deployments/{deployment['id']}/logs?{asked}")
        assert answer.is_success, answer.text
        return answer.text.splitlines()

    @contextmanager
    def watching(self, deployment: Json) -> Iterator[Callable[[], list[Json]]]:
        """Calls give all changes of the Deployment's Pods since this began, in their order."""
        query = f"labelSelector=anycloud.sh/deployment%3D{deployment['id']}"
        version = self.plane.call("GET", f"/api/v1/pods?{query}")["metadata"]["resourceVersion"]
        path = f"/api/v1/pods?{query}&watch=true&resourceVersion={version}"
        with self._lines("get", "--raw", path) as lines:
            yield lambda: [json.loads(line) for line in lines]

    @contextmanager
    def following(self, pod: Json) -> Iterator[list[str]]:
        """The lines that the Pod's container prints, as they come."""
        about = pod["metadata"]
        with self._lines("logs", "--follow", "-n", about["namespace"], about["name"]) as lines:
            yield lines

    @contextmanager
    def _lines(self, *words: str) -> Iterator[list[str]]:
        """What kubectl prints while this lasts."""
        command = [str(locate("kubectl")), f"--kubeconfig={self.plane.kubeconfig()}", *words]
        lines: list[str] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            stream = process.stdout
            thread = threading.Thread(target=lambda: lines.extend(line.rstrip("\n") for line in stream))
            thread.start()
            try:
                yield lines
            finally:
                process.terminate()
                thread.join()

    def run_in(self, pod: Json, *words: str) -> str:
        """What a command prints that runs in the Pod's container. Raises RuntimeError."""
        about = pod["metadata"]
        return self.kubectl("exec", "-n", about["namespace"], about["name"], "--", *words)

    def machine_state(self, vm: VM) -> str:
        """What its provider says of a VM."""
        keys = {"x-sandbox-key": CREDENTIAL["accessKeyId"], "x-sandbox-secret": CREDENTIAL["secretAccessKey"]}
        body = {"id": self.hypervisor.machine_id(vm)}
        return str(self.sandbox.call("POST", "/cloud/AWS/DescribeMachine", body, keys)["machine"]["state"])

    def kubectl(self, *words: str) -> str:
        command = [str(locate("kubectl")), f"--kubeconfig={self.plane.kubeconfig()}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def diagnose(self) -> str:
        """What helps whoever reads of a failure."""
        parts = [self.kubectl("get", "nodes,pods", "-A", "-o", "wide")]
        parts.append(self.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp")[-4000:])
        parts.append(f"== API\n{self._log()[-4000:]}")
        return "\n".join(parts)

    # How it is put together

    @property
    def url(self) -> str:
        return f"http://{self.network.gateway}:{self._port}"

    def _register_image(self) -> dict[str, str]:
        """The image under the name that Pods ask for: the sandbox's registry has digests of its own making."""
        manifest = {"accelerator": "none", "env": {}, "command": [], "labels": {}}
        body = {"reference": IMAGE, "manifest": manifest}
        digest = self.sandbox.call("POST", "/registry/images", body)["digest"]
        return {f"docker.io/{IMAGE.rpartition(':')[0]}@{digest}": images.WORKER}

    def _grant(self) -> None:
        """What the chart installs of the API's own authority, and the files that its Pod has."""
        self._port = free_port()
        sha256 = self._surroundings.sha256
        self.plane.ensure("/api/v1/namespaces", {"metadata": {"name": helm.NAMESPACE}})
        accounts = f"/api/v1/namespaces/{helm.NAMESPACE}/serviceaccounts"
        self.plane.ensure(accounts, {"metadata": {"name": ACCOUNT}})
        for manifest in helm.rbac():
            if manifest["kind"] != "ServiceAccount":
                namespace = manifest["metadata"].get("namespace")
                inside = f"/namespaces/{namespace}" if namespace else ""
                path = f"/apis/rbac.authorization.k8s.io/v1{inside}/{manifest['kind'].lower()}s"
                self.plane.ensure(path, manifest)
        system = self.plane.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
        given = helm.values()["release"]
        user = self.sandbox.call("GET", "/github/user", headers={"Authorization": f"Bearer {SIGN_IN}"})
        about = {"id": "cl-abcdefghijkl", "name": "home", "identity": system, "address": self.network.gateway}
        given["cluster"] = {**about, "endpoint": self.plane.endpoint, "ca": self.plane.ca}
        given["api"]["url"] = self.url
        given["owner"] = {"userId": str(user["id"]), "username": user["login"]}
        given["sandboxUrl"] = self.sandbox.url
        files = {
            "token": self.plane.account_token(helm.NAMESPACE, ACCOUNT, 24 * 3600),
            "ca.crt": self.plane.ca,
            "namespace": helm.NAMESPACE,
            "values.json": json.dumps(given),
            # The one thing that is not the product's own: K3s itself is not to be had here, nor its checksum.
            "sitecustomize.py": f"from anycloud_nodepool.domain import pins\npins.K3S_SHA256 = {sha256!r}\n",
        }
        for name, text in files.items():
            (self.directory / name).touch(0o600)
            (self.directory / name).write_text(text)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ANYCLOUD_")}
        return {
            **kept,
            "ANYCLOUD_DATA_DIR": str(self.directory / "data"),
            "ANYCLOUD_PUBLIC_URL": self.url,
            "ANYCLOUD_RELEASE_VALUES": str(self.directory / "values.json"),
            "ANYCLOUD_SERVICEACCOUNT_DIR": str(self.directory),
            "KUBERNETES_SERVICE_HOST": self.plane.host,
            "KUBERNETES_SERVICE_PORT": str(self.plane.port),
            "PYTHONPATH": os.pathsep.join([str(self.directory), os.environ.get("PYTHONPATH", "")]),
        }

    def _serves(self) -> bool:
        if self._api is None or self._api.poll() is not None:
            raise RuntimeError(f"the API ended:\n{self._log()[-3000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _get(self, path: str) -> Json:
        """The answer, when there is one: 503 asks to come again in a moment."""

        def answered() -> Json | None:
            answer = self.api.call("GET", path)
            if answer.status_code == 503:
                return None
            assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
            return dict(answer.json())

        return until(answered, path)

    def _answers(self, path: str) -> bool:
        return self.api.call("GET", path).is_success

    def _log(self) -> str:
        return (self.directory / "api.log").read_text(errors="replace")
