"""The installation of a Pod: what its environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from anycloud_supervisor import hosted
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.services import SERVICES, inherited, service_steps


def _values(tmp_path: Path, **values: object) -> dict[str, str]:
    path = tmp_path / "values.json"
    path.write_text(json.dumps(values))
    return {
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "not for services",
        "ANYCLOUD_DATA_DIR": str(tmp_path / "data"),
        "ANYCLOUD_RELEASE_VALUES": str(path),
        "ANYCLOUD_PUBLIC_URL": "http://127.0.0.2:21000",
        "KUBERNETES_SERVICE_HOST": "10.43.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }


def test_services_get_the_settings_of_the_pod_and_no_cloud_keys(tmp_path: Path) -> None:
    environ = _values(tmp_path, sandboxUrl="http://127.0.0.1:20001")
    made = hosted.environment(tmp_path / "data", tmp_path / "run", environ)
    assert made == {
        "PATH": "/bin",
        "ANYCLOUD_MODE": "hosted",
        "ANYCLOUD_DATA_DIR": str(tmp_path / "data"),
        "ANYCLOUD_RUNTIME_DIR": str(tmp_path / "run"),
        "ANYCLOUD_RELEASE_VALUES": str(tmp_path / "values.json"),
        "ANYCLOUD_PUBLIC_URL": "http://127.0.0.2:21000",
        "ANYCLOUD_SANDBOX_URL": "http://127.0.0.1:20001",
        "KUBERNETES_SERVICE_HOST": "10.43.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
    }


def test_without_a_sandbox_in_the_release_values_there_is_none(tmp_path: Path) -> None:
    made = hosted.environment(tmp_path, tmp_path, _values(tmp_path, sandboxUrl=None))
    assert "ANYCLOUD_SANDBOX_URL" not in made


@pytest.mark.parametrize(
    ("url", "listen"),
    [
        ("http://127.0.0.2:21000", ("127.0.0.2", 21000)),
        ("http://127.0.0.2", ("127.0.0.2", 80)),
        ("https://cl-abc.anycloud.sh", ("0.0.0.0", 8080)),
    ],
)
def test_the_public_url_says_where_envoy_listens(url: str, listen: tuple[str, int]) -> None:
    assert hosted.listen_address(url) == listen


def test_release_values_that_are_not_json_are_named(tmp_path: Path) -> None:
    environ = _values(tmp_path)
    (tmp_path / "values.json").write_text("{")
    with pytest.raises(SupervisorError, match="aren't JSON"):
        hosted.environment(tmp_path, tmp_path, environ)


def test_a_pod_without_its_settings_ends_with_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anycloud_supervisor", "hosted"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == [
        "ANYCLOUD_DATA_DIR is not set; it must have a value."
    ]


def test_the_plan_migrates_first_and_opens_the_door_with_the_services(tmp_path: Path) -> None:
    pytest.importorskip("anycloud_gateway.config")
    env = inherited(dict(os.environ))
    steps = service_steps(env, tmp_path, hosted.listen_address("http://127.0.0.2:21000"), tmp_path / "access.log")
    assert [[process.name for process in step.processes] for step in steps] == [["migrate"], [*SERVICES, "envoy"]]
    assert steps[0].processes[0].ready is None
    bootstrap = json.loads((tmp_path / "envoy.json").read_text())
    address = bootstrap["static_resources"]["listeners"][0]["address"]["socket_address"]
    assert address == {"address": "127.0.0.2", "port_value": 21000}


def test_services_serve_metrics_on_ports_in_a_row_when_asked_to(tmp_path: Path) -> None:
    listen = hosted.listen_address("http://127.0.0.2:21000")
    env = {"ANYCLOUD_METRICS_PORT": "9100"}
    *_, serving = service_steps(env, tmp_path, listen, tmp_path / "access.log")
    ports = {process.name: process.env.get("ANYCLOUD_METRICS_PORT") for process in serving.processes}
    assert [ports[name] for name in SERVICES] == ["9100", "9101", "9102", "9103"]


@pytest.mark.parametrize("port", ["x", "0", "-1", "65534", "9100 "])
def test_what_is_no_port_for_metrics_is_refused(tmp_path: Path, port: str) -> None:
    listen = hosted.listen_address("http://127.0.0.2:21000")
    with pytest.raises(SupervisorError, match="ANYCLOUD_METRICS_PORT is"):
        service_steps({"ANYCLOUD_METRICS_PORT": port}, tmp_path, listen, tmp_path / "access.log")
