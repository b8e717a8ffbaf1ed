"""What stands in for K3s's image of Helm Jobs: real Helm, called as helm-controller's Jobs expect it of klipper-helm.

`python -m anycloud_control_plane.helm_job install [--namespace …] …` or `… delete`, with the Job's environment. If it
isn't in a container of its own, variables say where things are: HELM (the program), CONFIG (mounted values), CONTENT
(a mounted chart), ACCOUNT (the account's token and CA), TMP, and REGISTRY (the sandbox's, for charts by reference).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

HASH_LABEL = "helmcharts.helm.cattle.io/configHash"
_NOTHING_DONE, _REFUSED = 0, 1


class HelmJob:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._env = environ
        self._name, self._namespace = environ["NAME"], environ["TARGET_NAMESPACE"]
        self._tmp = Path(environ.get("TMP", "/tmp"))  # noqa: S108  (the container's own)
        self._kubeconfig = self._tmp / "kubeconfig"

    def run(self, words: Sequence[str]) -> int:
        self._kubeconfig.write_text(self._connection())
        revision, state = self._release()
        if words[0] == "delete":
            return 0 if not revision else self._helm("uninstall", self._name, "--namespace", self._namespace)
        expected = int(self._env.get("EXPECTED_RELEASE_REVISION") or revision)
        if expected != revision:
            print(f"Current release revision {revision} does not match expected revision {expected}")
            return _NOTHING_DONE
        return self._install(state, words[1:])

    def _install(self, state: str, given: Sequence[str]) -> int:
        policy = self._env.get("FAILURE_POLICY", "reinstall")
        if state == "pending-install":  # cut off
            state = "failed"
        if state == "failed" and policy == "abort":
            print("Release status is 'failed' and failure policy is 'abort'; waiting for operator intervention")
            return _REFUSED
        if state == "failed" and policy == "reinstall":
            self._helm("uninstall", self._name, "--namespace", self._namespace, "--wait")
            state = ""
        elif state.startswith("pending-"):  # an upgrade that was cut off: its release counts as none
            self._helm("rollback", self._name, "--namespace", self._namespace)
        verb = "upgrade" if state else "install"
        return self._helm(verb, self._name, str(self._chart()), *_without_version(given), *self._options())

    def _options(self) -> list[str]:
        """Values in the order of their files, and what the controller finds its work by."""
        options = [f"--labels={HASH_LABEL}={self._env['CONFIG_HASH']}"] if self._env.get("CONFIG_HASH") else []
        for path in sorted(Path(self._env.get("CONFIG", "/config")).glob("values-*.yaml")):
            options += ["--values", str(path)]
        if timeout := self._env.get("TIMEOUT"):
            options += ["--timeout", timeout]
        return options

    def _release(self) -> tuple[int, str]:
        """Number and state of the newest record; 0 and nothing when there is none."""
        command = self._command("list", "--namespace", self._namespace, "--filter", f"^{self._name}$", "--output=json")
        done = subprocess.run(command, env=self._environment(), stdout=subprocess.PIPE, check=True)  # noqa: S603
        found = json.loads(done.stdout)
        return (int(found[0]["revision"]), str(found[0]["status"])) if found else (0, "")

    def _chart(self) -> Path:
        """Mounted, known to the registry, or an empty one: what this world has nothing of still is a release."""
        mounted = Path(self._env.get("CONTENT", "/chart")) / f"{self._name}.tgz.base64"
        if mounted.is_file():
            archive = self._tmp / f"{self._name}.tgz"
            archive.write_bytes(base64.b64decode(mounted.read_bytes()))
            return archive
        reference = self._env["CHART"].removeprefix("oci://")
        if folder := self._registered(reference):
            return folder
        print(f"{reference} is not in this registry: an empty chart stands in")
        empty = self._tmp / self._name
        empty.mkdir(exist_ok=True)
        chart = {"apiVersion": "v2", "name": self._name, "version": self._env.get("VERSION") or "0.0.0"}
        (empty / "Chart.yaml").write_text(yaml.safe_dump(chart))
        return empty

    def _registered(self, reference: str) -> Path | None:
        url = f"{self._env.get('REGISTRY')}/registry/images?{urllib.parse.urlencode({'reference': reference})}"
        if "REGISTRY" not in self._env:
            return None
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  (loopback)
                return Path(json.load(answer)["directory"])
        except urllib.error.HTTPError as error:
            if error.code in (400, 404):
                return None
            raise

    def _helm(self, *words: str) -> int:
        return subprocess.run(self._command(*words), env=self._environment(), check=False).returncode  # noqa: S603

    def _command(self, *words: str) -> list[str]:
        return [self._env.get("HELM", "helm"), *words]

    def _environment(self) -> dict[str, str]:
        homes = {f"HELM_{kind}_HOME": str(self._tmp / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return {**self._env, **homes, "KUBECONFIG": str(self._kubeconfig)}

    def _connection(self) -> str:
        account = Path(self._env.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
        server = f"https://{self._env['KUBERNETES_SERVICE_HOST']}:{self._env['KUBERNETES_SERVICE_PORT']}"
        cluster = {"server": server, "certificate-authority": str(account / "ca.crt")}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "account", "user": {"tokenFile": str(account / "token")}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "account"}}],
            "current-context": "here",
        }
        return yaml.safe_dump(document)


def _without_version(words: Sequence[str]) -> list[str]:
    """A chart in a folder or archive has the version that it has."""
    kept = list(words)
    if "--version" in kept:
        at = kept.index("--version")
        del kept[at : at + 2]
    return kept


def main() -> int:
    try:
        return HelmJob(os.environ).run(sys.argv[1:])
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
