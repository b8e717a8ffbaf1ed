"""Envoy as a container of its own: `python -m anycloud_gateway`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from anycloud_gateway.__main__ import prepare


def test_envoy_accepts_what_the_container_writes(tmp_path: Path) -> None:
    argv = prepare({"ANYCLOUD_RUNTIME_DIR": str(tmp_path), "ANYCLOUD_LISTEN": "127.0.0.1:21080"})
    listener = json.loads((tmp_path / "envoy.json").read_text())["static_resources"]["listeners"][0]
    assert listener["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 21080}
    done = subprocess.run([*argv, "--mode", "validate"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_more_it_listens_on_the_charts_port(tmp_path: Path) -> None:
    prepare({"ANYCLOUD_RUNTIME_DIR": str(tmp_path)})
    listener = json.loads((tmp_path / "envoy.json").read_text())["static_resources"]["listeners"][0]
    assert listener["address"]["socket_address"]["port_value"] == 8080


def test_the_gateway_may_be_the_first_of_its_pods_containers(tmp_path: Path) -> None:
    sockets = tmp_path / "run" / "sockets"
    prepare({"ANYCLOUD_RUNTIME_DIR": str(sockets)})
    assert (sockets / "envoy.json").exists()
    assert sockets.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"ANYCLOUD_RUNTIME_DIR": "sockets"},
        {"ANYCLOUD_RUNTIME_DIR": "/run", "ANYCLOUD_LISTEN": "8080"},
        {"ANYCLOUD_RUNTIME_DIR": "/run", "ANYCLOUD_LISTEN": "0.0.0.0:0"},
    ],
)
def test_a_wrong_variable_is_one_sentence_and_exit_code_1(environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anycloud_gateway"], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ANYCLOUD_")
    assert done.stderr.count("\n") == 1
