"""Container images of the tests, made without Docker as archives that `ctr images import` takes.

`worker` has a shell, Python and the published client, and by itself runs the demo's worker; `pause` only waits.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

TREE = Path(__file__).parents[3]
PAUSE = "docker.io/rancher/mirrored-pause:3.6"
WORKER = "docker.io/anycloud-world/worker:1"

_PYTHON = ("python3.11", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "busybox-static")
_LIBRARIES = (
    "libc6",
    "libgcc-s1",
    "libssl3",
    "zlib1g",
    "libbz2-1.0",
    "liblzma5",
    "libsqlite3-0",
    "libffi8",
    "libexpat1",
    "libuuid1",
    "libcrypt1",
    "libtinfo6",
    "media-types",
    "netbase",
    "tzdata",
)
_SKIPPED = ("usr/share/doc", "usr/share/man", "usr/share/zoneinfo", "usr/share/lintian", "usr/share/applications")
_MERGED = ("bin", "lib", "lib64", "sbin")
_SHELL = (
    "sh",
    "cat",
    "chmod",
    "date",
    "echo",
    "env",
    "grep",
    "id",
    "kill",
    "ls",
    "mkdir",
    "sed",
    "sleep",
    "stat",
    "touch",
)
_DIRECTORIES = ("dev", "etc", "proc", "run", "sys", "tmp", "var/run", "app")


def build(root: Path, target: Path) -> None:
    """Writes `pause.tar` and `worker.tar` into `target`, with Python from the Debian root. Raises on failure."""
    shell = [(root / "bin/busybox", "usr/bin/busybox")]
    _archive(target / "pause.tar", PAUSE, shell, ["/bin/sleep", "2147483647"])
    with tempfile.TemporaryDirectory() as scratch:
        _install_client(Path(scratch))
        client = _below(Path(scratch), "usr/lib/python3/dist-packages")
        worker = [(TREE / "examples/worker/worker.py", "app/worker.py")]
        files = [*_debian(root), *client, *shell, *worker]
        _archive(target / "worker.tar", WORKER, files, ["/usr/bin/python3.11", "-u", "/app/worker.py"])


def _install_client(directory: Path) -> None:
    """The published client as wheels for the image's Python, whichever Python this is."""
    command = [sys.executable, "-m", "pip"] if _has_pip() else ["pip"]
    command += ["install", "--quiet", "--disable-pip-version-check", "--root-user-action", "ignore", "--no-deps"]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11", "--require-hashes"]
    command += ["--platform", "manylinux2014_x86_64", "--target", str(directory)]
    subprocess.run([*command, "-r", str(TREE / "requirements/sdk.lock")], check=True)


def _has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def _debian(root: Path) -> list[tuple[Path, str]]:
    """The files of the packages, by their names in the image. Debian merged /lib into /usr, and the image does so."""
    listed = subprocess.run(
        ["dpkg", f"--admindir={root}/var/lib/dpkg", "--listfiles", *_PYTHON, *_LIBRARIES],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    found = {}
    for name in listed:
        path = root / name.lstrip("/")
        merged = f"usr{name}" if name.split("/")[1] in _MERGED else name.lstrip("/")
        if not merged.startswith(_SKIPPED) and path.is_file() and name.count("/") > 1:
            found[merged] = path
    return [(path, name) for name, path in found.items()]


def _below(directory: Path, prefix: str) -> list[tuple[Path, str]]:
    files = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [(path, f"{prefix}/{path.relative_to(directory)}") for path in files]


def _archive(target: Path, name: str, files: Iterable[tuple[Path, str]], command: Sequence[str]) -> None:
    """A docker-archive with one layer."""
    layer = _layer(files)
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/usr/bin:/bin"], "WorkingDir": "/app"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "tests/world"}],
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        _add(archive, f"{digest}/layer.tar", layer)
        _add(archive, config_name, text)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _layer(files: Iterable[tuple[Path, str]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name in _DIRECTORIES:
            _add_directory(layer, name, 0o1777 if name == "tmp" else 0o755)
        for name in _MERGED:
            _add_link(layer, name, f"usr/{name}")
        _add(layer, "etc/passwd", b"root:x:0:0::/:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n")
        for command in _SHELL:
            _add_link(layer, f"usr/bin/{command}", "busybox")
        for path, name in files:
            if path.is_symlink():
                _add_link(layer, name, str(path.readlink()))
            else:
                _add(
                    layer,
                    name,
                    path.read_bytes(),
                    0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o111 else 0o644,
                )
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _add_directory(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)
