"""What stands in for the image of Helm's Jobs: which commands follow from a release's state and the Job's wishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anycloud_control_plane.helm_job import HelmJob

GIVEN = ["install", "--namespace", "target", "--create-namespace", "--version", "1.0"]


class Helm:
    """A program in the place of Helm that says what it is told to and writes its words down."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.state = directory, directory / "state"
        self.env = {"NAME": "app", "TARGET_NAMESPACE": "target", "CHART": "oci://example.com/app", "VERSION": "1.0"}
        self.env |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
        self.env |= {name: str(directory) for name in ("TMP", "CONTENT", "CONFIG", "ACCOUNT")}
        self.env |= {"HELM": str(directory / "helm"), "CONFIG_HASH": "ABC", "FAILURE_POLICY": "abort"}
        script = f'#!/bin/sh\necho "$@" >> {directory}/words\n[ $1 = list ] && cat {self.state} || true\n'
        (directory / "helm").touch(0o700)
        (directory / "helm").write_text(script)

    def run(self, revision: int, status: str, *words: str, **env: str) -> tuple[int, list[str]]:
        """Exit code and the commands that changed something."""
        record: list[Any] = [{"revision": str(revision), "status": status}] if revision else []
        self.state.write_text(json.dumps(record))
        (self.directory / "words").write_text("")
        code = HelmJob({**self.env, **env}).run(words or GIVEN)
        commands = (self.directory / "words").read_text().splitlines()
        return code, [line.split()[0] for line in commands if not line.startswith("list")]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


@pytest.mark.parametrize(
    ("revision", "status", "policy", "code", "commands"),
    [
        (0, "", "abort", 0, ["install"]),
        (3, "deployed", "abort", 0, ["upgrade"]),
        (3, "failed", "abort", 1, []),
        (3, "failed", "reinstall", 0, ["uninstall", "install"]),
        (3, "failed", "retry", 0, ["upgrade"]),
        (1, "pending-install", "abort", 1, []),
        (1, "pending-install", "reinstall", 0, ["uninstall", "install"]),
        (4, "pending-upgrade", "abort", 0, ["rollback", "upgrade"]),
    ],
)
def test_the_state_of_a_release_decides_what_is_done(
    helm: Helm, revision: int, status: str, policy: str, code: int, commands: list[str]
) -> None:
    assert helm.run(revision, status, FAILURE_POLICY=policy) == (code, commands)


def test_nothing_is_done_for_another_revision_than_the_controller_saw(helm: Helm) -> None:
    assert helm.run(3, "deployed", EXPECTED_RELEASE_REVISION="2") == (0, [])
    assert helm.run(3, "deployed", EXPECTED_RELEASE_REVISION="3") == (0, ["upgrade"])


def test_only_a_release_that_is_there_is_taken_away(helm: Helm) -> None:
    assert helm.run(3, "deployed", "delete") == (0, ["uninstall"])
    assert helm.run(0, "", "delete") == (0, [])


def test_values_come_in_order_and_the_record_gets_the_controllers_label(helm: Helm, tmp_path: Path) -> None:
    for name in ("values-1-000.yaml", "values-0-000.yaml", "ca-file.pem"):
        (tmp_path / name).touch()
    helm.run(0, "")
    (words,) = [line for line in (tmp_path / "words").read_text().splitlines() if line.startswith("install")]
    label = "--labels=helmcharts.helm.cattle.io/configHash=ABC"
    values = f"--values {tmp_path}/values-0-000.yaml --values {tmp_path}/values-1-000.yaml"
    assert words == f"install app {tmp_path}/app --namespace target --create-namespace {label} {values}"


def test_it_signs_in_with_the_account_of_its_pod_and_no_secret_in_sight(helm: Helm, tmp_path: Path) -> None:
    helm.run(0, "")
    text = (tmp_path / "kubeconfig").read_text()
    assert f"tokenFile: {tmp_path}/token" in text
    assert "server: https://127.0.0.1:6443" in text
