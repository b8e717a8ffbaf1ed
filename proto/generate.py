"""Makes everything that is derived from the .proto files: Python stubs with types, Envoy's descriptor set, the OpenAPI
document, and the SDKs.

Usage: python proto/generate.py [--check | --sdks]
  --check   change nothing; name what is stale, and fail if anything is
  --sdks    make the SDKs anew even where they are not stale
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compiler import descriptors
from sdks import Sdk, sdks

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
STUBS = ROOT / "gen" / "anycloudapi"
REST_PB = ROOT / "gateway" / "anycloud_gateway" / "rest.pb"
OPENAPI = ROOT / "sdk" / "openapi.yaml"


@dataclass(frozen=True)
class Fresh:
    """What the .proto files make now, in a scratch folder."""

    stubs: Path
    rest: Path
    openapi: Path

    def stale(self) -> Iterator[Path]:
        """Committed files and folders that differ."""
        if not same(self.stubs, STUBS):
            yield STUBS
        for new, committed in ((self.rest, REST_PB), (self.openapi, OPENAPI)):
            if not committed.is_file() or committed.read_bytes() != new.read_bytes():
                yield committed

    def commit(self) -> None:
        """Takes the place of what is stale."""
        shutil.rmtree(STUBS, ignore_errors=True)
        shutil.copytree(self.stubs, STUBS)
        shutil.copyfile(self.rest, REST_PB)
        shutil.copyfile(self.openapi, OPENAPI)


def fresh(out: Path) -> Fresh:
    """Makes all but the SDKs in `out`."""
    api = stubs(out)
    made = Fresh(out / "anycloudapi", out / REST_PB.name, out / OPENAPI.name)
    derive(out, "anycloud_common.rest.descriptors", api, made.rest)
    derive(out, "anycloud_common.rest.openapi", api, made.openapi, version())
    return made


def stubs(out: Path) -> Path:
    """Compiles our .proto files into Python in `out` and gives the path of their descriptor set."""
    bin_dir = Path(sys.executable).parent
    api = out / "api.pb"
    descriptors(
        PROTO,
        api,
        f"--plugin=protoc-gen-mypy={bin_dir / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={bin_dir / 'protoc-gen-mypy_grpc'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet:{out}",
    )
    for folder in [out / "anycloudapi", *(p for p in (out / "anycloudapi").rglob("*") if p.is_dir())]:
        (folder / "__init__.py").touch()
    return api


def same(a: Path, b: Path) -> bool:
    if not b.is_dir():
        return False
    compared = filecmp.dircmp(a, b, ignore=["__pycache__"])
    if compared.left_only or compared.right_only:
        return False
    if filecmp.cmpfiles(a, b, compared.common_files, shallow=False)[1:] != ([], []):
        return False
    return all(same(a / d, b / d) for d in compared.common_dirs)


def derive(out: Path, module: str, *arguments: str | Path) -> None:
    """Runs a module of ours in a process that imports the fresh stubs."""
    environment = {"PYTHONPATH": f"{out}:{ROOT / 'services' / 'common'}", "PATH": ""}
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True, env=environment)


def version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def check(made: Fresh, all_sdks: list[Sdk]) -> int:
    stale = [path.relative_to(ROOT).as_posix() for path in made.stale()]
    stale += [sdk.name for sdk in all_sdks if sdk.is_stale()]
    for name in stale:
        print(f"stale: {name}")
    print("run `make generate`" if stale else "generated files are up to date")
    return 1 if stale else 0


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        made = fresh(Path(scratch))
        all_sdks = sdks(made.openapi, version())
        if "--check" in sys.argv:
            return check(made, all_sdks)
        made.commit()
        for sdk in all_sdks:
            if "--sdks" in sys.argv or sdk.is_stale():
                with tempfile.TemporaryDirectory() as folder:
                    sdk.renew(Path(folder))
                print(f"made {sdk.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
