"""A kubelet for nothing but helm-controller's Jobs: `with HelmJobs(plane, directory) as jobs: …`.

Each Pod of such a Job runs as a process: the program that stands in for K3s's image of it, with real Helm and with what
the Pod mounts. A container that fails is started again at once, where a kubelet would wait longer each time.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kube import helm
from tests.kube.assets.location import locate
from tests.support.control_plane import HOST, ControlPlane, Refused

Json = dict[str, Any]

NAMESPACE = "kube-system"
CHART_LABEL = "helmcharts.helm.cattle.io/chart"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PAUSE_S = 0.1
_SLOWLY = {"HELM_QPS": "4", "HELM_BURST_LIMIT": "1"}  # requests a second, so that it can be cut off in their middle


class HelmJobs:
    """`cut_off`: how many runs are to be killed, as by a power cut, as soon as Helm has its record of them.
    `runs` has what each ended run printed."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane, self.directory = plane, directory
        self.cut_off = 0
        self.runs: list[str] = []
        self._seen: set[str] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="helm jobs")

    def __enter__(self) -> Self:
        self.directory.mkdir()
        helm.helm("package", str(helm.CHART), "--destination", str(self.directory))
        (archive,) = self.directory.glob("*.tgz")
        content = self.directory / "content"
        content.mkdir()
        (content / f"{helm.NAME}.tgz.base64").write_bytes(base64.b64encode(archive.read_bytes()))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ends.wait(_PAUSE_S):
            try:
                pods = self.plane.call("GET", f"{PODS}?labelSelector={CHART_LABEL}")["items"]
            except (OSError, Refused):
                continue
            for pod in pods:
                if pod["metadata"]["uid"] not in self._seen and "deletionTimestamp" not in pod["metadata"]:
                    self._seen.add(pod["metadata"]["uid"])
                    self._run(pod)
                elif "deletionTimestamp" in pod["metadata"]:
                    self._remove(pod)

    def _run(self, pod: Json) -> None:
        """To its end: once it has succeeded, or failed twice, which counts as all the times that its Job allows."""
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        allowed = self.plane.call("GET", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}")["spec"]["backoffLimit"]
        for restarts in (0, allowed + 1):
            code, output = self._attempt(pod)
            self.runs.append(output)
            ended = {"exitCode": code, "message": output.strip().rpartition("\n")[2][-1000:]}
            self._report(pod, ended, restarts)
            if code == 0:
                return

    def _attempt(self, pod: Json) -> tuple[int, str]:
        room = self.directory / f"{pod['metadata']['uid']}-{time.monotonic_ns()}"
        for part in ("config", "account", "tmp"):
            (room / part).mkdir(parents=True)
        self._mount(pod, room)
        container = pod["spec"]["containers"][0]
        given = {item["name"]: item.get("value", "") for item in container["env"]}
        given |= {"HELM": str(locate("helm")), "CONFIG": str(room / "config"), "ACCOUNT": str(room / "account")}
        given |= {"TMP": str(room / "tmp"), "CONTENT": str(self.directory / "content")}
        given |= {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self.plane.port)}
        given |= _SLOWLY if self.cut_off else {}
        command = [sys.executable, "-m", "anycloud_control_plane.helm_job", *container["args"]]
        environment = {**os.environ, **given}
        with (room / "output").open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if self.cut_off:
            self.cut_off -= 1
            self._cut(process)
        return process.wait(), (room / "output").read_text(errors="replace")

    def _cut(self, process: subprocess.Popen[bytes]) -> None:
        selector = f"owner=helm,name={helm.NAME},status=pending-install"
        records = f"/api/v1/namespaces/{helm.NAMESPACE}/secrets?labelSelector={selector.replace('=', '%3D')}"
        while process.poll() is None:
            if self.plane.call("GET", records)["items"]:
                os.killpg(process.pid, signal.SIGKILL)
                return
            time.sleep(0.005)

    def _mount(self, pod: Json, room: Path) -> None:
        """The volume with the values, and the account's token as a kubelet asks for it."""
        (values,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "values"] or [{}]
        for source in values.get("projected", {}).get("sources", []):
            secret = self.plane.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{source['secret']['name']}")
            for item in source["secret"].get("items") or []:
                (room / "config" / item["path"]).write_bytes(base64.b64decode(secret["data"][item["key"]]))
        (room / "account" / "ca.crt").write_text(self.plane.ca)
        token = self.plane.account_token(NAMESPACE, pod["spec"]["serviceAccountName"])
        (room / "account" / "token").write_text(token)

    def _report(self, pod: Json, ended: Json, restarts: int) -> None:
        state = {"terminated": ended} if ended["exitCode"] == 0 else {"waiting": {"reason": "CrashLoopBackOff"}}
        container = {"name": "helm", "image": "", "imageID": "", "ready": False, "restartCount": restarts}
        container |= {"state": state, "lastState": {"terminated": ended} if ended["exitCode"] else {}}
        phase = "Succeeded" if ended["exitCode"] == 0 else "Running"
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        try:
            self.plane.call("PATCH", f"{PODS}/{pod['metadata']['name']}/status", status)
        except Refused as refused:
            if refused.status != 404:
                raise

    def _remove(self, pod: Json) -> None:
        try:
            self.plane.call("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        except Refused as refused:
            if refused.status != 404:
                raise
