"""Container images of the tests, made without Docker as archives that `ctr images import` takes.

`worker` has a shell, Python and the published client, and by itself runs the demo's worker; `pause` only waits.
`platform` is the project itself: the image of the API, and with its entry point that of Helm Jobs. Of it only the layer
that hardly ever changes is built ahead.
"""

from __future__ import annotations

import hashlib
import io
import json
import py_compile
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

TREE = Path(__file__).parents[3]
PAUSE = "docker.io/rancher/mirrored-pause:3.6"
WORKER = "docker.io/anycloud-world/worker:1"

_PLATFORMS = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(36, 16, -1)]  # of Debian's glibc, and older
_PYTHON = ("python3.11", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "busybox-static")
_LIBRARIES = (
    "libc6",
    "libgcc-s1",
    "libssl3",
    "libstdc++6",
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
LIBRARIES = "usr/lib/python3/dist-packages"
# Wheels for the image's Python, whichever Python this is.
_BINARY = ("--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11", *_PLATFORMS)
_SKIPPED = ("usr/share/doc", "usr/share/man", "usr/share/zoneinfo", "usr/share/lintian", "usr/share/applications")
_MERGED = ("bin", "lib", "lib64", "sbin")
_SHELL = (
    "sh",
    "chown",
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
    "rm",
    "sed",
    "sleep",
    "stat",
    "touch",
)
_DIRECTORIES = ("dev", "etc", "proc", "run", "sys", "tmp", "var/run", "app")


def build(root: Path, target: Path) -> None:
    """Writes `pause.tar` and `worker.tar` into `target`, with Python from the Debian root. Raises on failure."""
    shell = [(root / "bin/busybox", "usr/bin/busybox")]
    command = {"Cmd": ["/bin/sleep", "2147483647"]}
    with (target / "pause.tar").open("wb") as archive:
        write_image(archive, PAUSE, [layer(shell)], command)
    with tempfile.TemporaryDirectory() as scratch:
        install(Path(scratch), "-r", str(TREE / "requirements/sdk.lock"), "--require-hashes", *_BINARY)
        worker = [(TREE / "examples/worker/worker.py", "app/worker.py")]
        files = [*_debian(root), *below(Path(scratch), LIBRARIES), *shell, *worker]
        with (target / "worker.tar").open("wb") as archive:
            command = {"Cmd": ["/usr/bin/python3.11", "-u", "/app/worker.py"]}
            write_image(archive, WORKER, [layer(files)], command)


def build_base(root: Path, target: Path) -> None:
    """Writes `layer.tar` into `target`: Python, and what the project needs of others."""
    with tempfile.TemporaryDirectory() as scratch:
        install(Path(scratch), "-r", str(TREE / "requirements/run.lock"), "--require-hashes", *_BINARY)
        files = [*_debian(root), *below(Path(scratch), LIBRARIES), (root / "bin/busybox", "usr/bin/busybox")]
        (target / "layer.tar").write_bytes(layer(files))


def install(directory: Path, *what: str) -> None:
    """Puts packages into a folder as pip does."""
    command = [sys.executable, "-m", "pip"] if _has_pip() else ["pip", "--python", sys.executable]
    command += ["install", "--quiet", "--disable-pip-version-check", "--root-user-action", "ignore", "--no-deps"]
    subprocess.run([*command, "--no-compile", "--target", str(directory), *what], check=True)


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


def below(directory: Path, prefix: str) -> list[tuple[Path, str]]:
    """All files of a folder, with their names in an image."""
    files = (path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [(path, f"{prefix}/{path.relative_to(directory)}") for path in files]


def write_image(target: IO[bytes], name: str, layers: Sequence[bytes], how: Mapping[str, Any]) -> None:
    """A docker-archive. `how` are fields such as `Cmd` of the image's configuration."""
    digests = [hashlib.sha256(each).hexdigest() for each in layers]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"], "WorkingDir": "/app", **how},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created_by": "tests/world"} for _ in layers],
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    paths = [f"{digest}/layer.tar" for digest in digests]
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, each in zip(paths, layers, strict=True):
            _add(archive, path, each)
        _add(archive, config_name, text)
        manifest = [{"Config": config_name, "RepoTags": [name], "Layers": paths}]
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def layer(files: Iterable[tuple[Path, str]]) -> bytes:
    """A layer with these files, and what every image here has."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive, tempfile.TemporaryDirectory() as scratch:
        for name in _DIRECTORIES:
            _add_directory(archive, name, 0o1777 if name == "tmp" else 0o755)
        for name in _MERGED:
            _add_link(archive, name, f"usr/{name}")
        _add(archive, "etc/passwd", b"root:x:0:0::/:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n")
        for command in _SHELL:
            _add_link(archive, f"usr/bin/{command}", "busybox")
        _add_link(archive, "usr/bin/python", "python3.11")
        for path, name in files:
            if path.is_symlink():
                _add_link(archive, name, str(path.readlink()))
                continue
            _add(archive, name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o111 else 0o644)
            if name.endswith(".py"):
                _add_compiled(archive, path, name, Path(scratch) / "compiled")
    return buffer.getvalue()


def _add_compiled(archive: tarfile.TarFile, path: Path, name: str, scratch: Path) -> None:
    """Without it every start of a container compiles all that it imports. Only this very Python's is of use."""
    if sys.version_info[:2] != (3, 11):
        return
    try:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(path), str(scratch), f"/{name}", doraise=True, invalidation_mode=mode)
    except py_compile.PyCompileError:  # a template, or a test of a compiler
        return
    folder, _, file = name.rpartition("/")
    _add(archive, f"{folder}/__pycache__/{file.removesuffix('.py')}.cpython-311.pyc", scratch.read_bytes())


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
