"""Makes everything that is derived from the .proto files: Python stubs with types, Envoy's descriptor set, and the
OpenAPI document.

Usage: python proto/generate.py [--check]   (--check: fail when the committed files are stale)
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
STUBS = ROOT / "gen" / "anycloudapi"
REST_PB = ROOT / "gateway" / "anycloud_gateway" / "rest.pb"
OPENAPI = ROOT / "sdk" / "openapi.yaml"


def google_protos() -> Path:
    """The folder that holds google/api/*.proto (of googleapis-common-protos)."""
    import google.api.annotations_pb2 as annotations

    return Path(annotations.__file__).parents[2]


def protoc(protos: Path, descriptors: Path, *options: str) -> None:
    """Compiles all .proto files below `protos` into a descriptor set with imports and comments."""
    from grpc_tools import protoc as compiler

    includes = [protos, google_protos(), Path(compiler.__file__).parent / "_proto"]
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        *(f"-I{folder}" for folder in includes),
        *options,
        "--include_imports",
        "--include_source_info",  # comments become descriptions in OpenAPI
        f"--descriptor_set_out={descriptors}",
        *sorted(str(p.relative_to(protos)) for p in protos.rglob("*.proto")),
    ]
    subprocess.run(command, check=True)


def stubs(out: Path) -> Path:
    """Compiles our .proto files into Python in `out` and gives the path of their descriptor set."""
    bin_dir = Path(sys.executable).parent
    descriptors = out / "api.pb"
    protoc(
        PROTO,
        descriptors,
        f"--plugin=protoc-gen-mypy={bin_dir / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={bin_dir / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
    )
    for folder in [out / "anycloudapi", *(p for p in (out / "anycloudapi").rglob("*") if p.is_dir())]:
        (folder / "__init__.py").touch()
    return descriptors


def same(a: Path, b: Path) -> bool:
    compared = filecmp.dircmp(a, b, ignore=["__pycache__"])
    if compared.left_only or compared.right_only:
        return False
    if filecmp.cmpfiles(a, b, compared.common_files, shallow=False)[1:] != ([], []):
        return False
    return all(same(a / d, b / d) for d in compared.common_dirs)


def derive(fresh: Path, module: str, *arguments: str | Path) -> None:
    """Runs a module of ours in a process that imports the fresh stubs."""
    environment = {"PYTHONPATH": f"{fresh}:{ROOT / 'services' / 'common'}", "PATH": ""}
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True, env=environment)


def version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        api, rest, openapi = stubs(out), out / REST_PB.name, out / OPENAPI.name
        derive(out, "anycloud_common.rest.descriptors", api, rest)
        derive(out, "anycloud_common.rest.openapi", api, openapi, version())
        made = {rest: REST_PB, openapi: OPENAPI}
        if "--check" in sys.argv:
            fresh = same(out / "anycloudapi", STUBS) and all(
                committed.is_file() and committed.read_bytes() == new.read_bytes() for new, committed in made.items()
            )
            print("generated files are up to date" if fresh else "generated files are stale: run `make generate`")
            return 0 if fresh else 1
        shutil.rmtree(STUBS, ignore_errors=True)
        shutil.copytree(out / "anycloudapi", STUBS)
        for new, committed in made.items():
            committed.parent.mkdir(exist_ok=True)
            shutil.copyfile(new, committed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
