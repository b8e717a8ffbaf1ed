"""protoc, as grpcio-tools has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def google_protos() -> Path:
    """The folder that holds google/api/*.proto (of googleapis-common-protos)."""
    import google.api.annotations_pb2 as annotations

    return Path(annotations.__file__).parents[2]


def protoc(protos: Path, files: Iterable[Path], *options: str) -> None:
    """Compiles the files, whose paths are relative to `protos`."""
    from grpc_tools import protoc as compiler

    includes = [protos, google_protos(), Path(compiler.__file__).parent / "_proto"]
    paths = [f"-I{folder}" for folder in includes]
    command = [sys.executable, "-m", "grpc_tools.protoc", *paths, *options, *map(str, files)]
    subprocess.run(command, check=True)


def descriptors(protos: Path, out: Path, *options: str) -> None:
    """Compiles all .proto files below `protos` into a descriptor set with imports and comments."""
    files = sorted(p.relative_to(protos) for p in protos.rglob("*.proto"))
    source_info = "--include_source_info"  # comments become descriptions in OpenAPI
    protoc(protos, files, *options, "--include_imports", source_info, f"--descriptor_set_out={out}")
