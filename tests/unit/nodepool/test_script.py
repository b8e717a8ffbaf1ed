"""What a VM runs at its first boot, run by a real shell in a scratch directory with stand-ins for system tools."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from anycloud_common.kube import SUPPORTED_MINORS
from anycloud_nodepool.domain import pins
from anycloud_nodepool.domain.join import install_script

BINARY = "the agent\n"


@dataclass
class Vm:
    root: Path

    def boot(self, provider: str = "AWS", machine: str = "x86_64", download: str = BINARY) -> int:
        """Exit code of the script."""
        tools = self.root / "tools"
        tools.mkdir()
        for directory in ("etc/rancher/k3s", "usr/local/bin"):
            (self.root / directory).mkdir(parents=True)
        (self.root / "download").write_text(download)
        self._tool("uname", f"echo {machine}")
        self._tool("systemctl", f'echo "$@" >> {self.root}/systemctl')
        self._tool("curl", _CURL.format(root=self.root))
        script = install_script(provider).replace(pins.K3S_SHA256, hashlib.sha256(BINARY.encode()).hexdigest())
        for path in ("/etc/", "/usr/local/"):
            script = script.replace(f" {path}", f" {self.root}{path}").replace(f"={path}", f"={self.root}{path}")
        environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", script], env=environment, timeout=20, check=False, capture_output=True, text=True
        )
        self.said = done.stderr
        return done.returncode

    @property
    def started(self) -> bool:
        log = self.root / "systemctl"
        return log.exists() and "enable --now k3s-agent" in log.read_text()

    def _tool(self, name: str, text: str) -> None:
        file = self.root / "tools" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)


# Answers the metadata's questions, each cloud's own way, and gives the download.
_CURL = """\
for last; do :; done
case "$*" in
  *"-X PUT"*api/token*) echo key ;;
  *"X-aws-ec2-metadata-token: key"*public-ipv4) echo 203.0.113.7 ;;
  *"Metadata-Flavor: Google"*external-ip) echo 203.0.113.7 ;;
  *"Metadata: true"*publicIpAddress*format=text) echo 203.0.113.7 ;;
  *github.com*) while [ "$1" != -o ]; do shift; done; cp {root}/download "$2" ;;
  *) exit 22 ;;
esac"""


@pytest.fixture
def vm(tmp_path: Path) -> Vm:
    return Vm(tmp_path)


@pytest.mark.req("NP-022", "NP-035")
@pytest.mark.parametrize("provider", ["AWS", "GCP", "Azure"])
def test_the_pinned_agent_is_started_with_the_vms_public_address(vm: Vm, provider: str) -> None:
    assert vm.boot(provider) == 0, vm.said
    assert vm.started
    assert (vm.root / "usr/local/bin/k3s").read_text() == BINARY
    address = (vm.root / "etc/rancher/k3s/config.yaml.d/address.yaml").read_text()
    assert address == 'node-external-ip: "203.0.113.7"\n'


@pytest.mark.req("NP-022")
def test_another_download_is_neither_kept_nor_started(vm: Vm) -> None:
    assert vm.boot(download="evil\n") == 1
    assert not vm.started
    assert list((vm.root / "usr/local/bin").iterdir()) == []
    assert "not the pinned one" in vm.said


@pytest.mark.req("NP-028")
def test_on_another_architecture_nothing_is_downloaded_and_the_reason_is_said(vm: Vm) -> None:
    assert vm.boot(machine="aarch64") == 1
    assert not vm.started
    assert "this VM is aarch64; node pools need x86_64" in vm.said


@pytest.mark.req("NP-016")
def test_the_pinned_agent_is_of_the_oldest_supported_minor() -> None:
    assert pins.K3S_VERSION.startswith(f"v1.{SUPPORTED_MINORS[0]}.")
    assert pins.K3S_VERSION.replace("+", "%2B") in pins.K3S_URL
