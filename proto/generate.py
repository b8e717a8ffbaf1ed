"""Makes everything that is derived from the .proto files: Python stubs with types, and Envoy's descriptor set.

Usage: python proto/generate.py [--check]   (--check: fail when the committed files are stale)
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
STUBS = ROOT / "gen" / "anycloudapi"
REST_PB = ROOT / "gateway" / "anycloud_gateway" / "rest.pb"


def google_protos() -> Path:
    """The folder that holds google/api/*.proto (of googleapis-common-protos)."""
    import google.api.annotations_pb2 as annotations

    return Path(annotations.__file__).parents[2]


def protoc(out: Path) -> Path:
    """Compiles all .proto files into `out` and gives the path of their descriptor set."""
    from grpc_tools import protoc as compiler

    includes = [str(PROTO), str(google_protos()), str(Path(compiler.__file__).parent / "_proto")]
    files = sorted(str(p.relative_to(PROTO)) for p in PROTO.rglob("*.proto"))
    descriptors = out / "api.pb"
    bin_dir = Path(sys.executable).parent
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        *(f"-I{i}" for i in includes),
        f"--plugin=protoc-gen-mypy={bin_dir / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={bin_dir / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
        "--include_imports",
        f"--descriptor_set_out={descriptors}",
        *files,
    ]
    subprocess.run(command, check=True)
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


def rest_descriptors(stubs: Path, api: Path, out: Path) -> None:
    """Envoy's descriptor set, made in a process that imports the fresh stubs."""
    environment = {"PYTHONPATH": f"{stubs}:{ROOT / 'services' / 'common'}", "PATH": ""}
    command = [sys.executable, "-m", "anycloud_common.rest.descriptors", str(api), str(out)]
    subprocess.run(command, check=True, env=environment)


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        api = protoc(out)
        rest = out / "rest.pb"
        rest_descriptors(out, api, rest)
        if "--check" in sys.argv:
            fresh = same(out / "anycloudapi", STUBS) and REST_PB.read_bytes() == rest.read_bytes()
            print("generated files are up to date" if fresh else "generated files are stale: run `make generate`")
            return 0 if fresh else 1
        shutil.rmtree(STUBS, ignore_errors=True)
        shutil.copytree(out / "anycloudapi", STUBS)
        shutil.copyfile(rest, REST_PB)
    return 0


if __name__ == "__main__":
    sys.exit(main())
