"""Where the disk and the images of the tests' VMs are: folders outside the tree, named after their recipes."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from tests.kube.assets import location as programs

HERE = Path(__file__).parent
TREE = HERE.parents[2]
BUILD_COMMAND = "make world-assets"

_ROOT_RECIPE = (HERE / "root.sh",)
_IMAGES_RECIPE = (*_ROOT_RECIPE, HERE / "images.py", TREE / "requirements/sdk.lock", TREE / "examples/worker/worker.py")
_BASE_RECIPE = (*_ROOT_RECIPE, HERE / "images.py", TREE / "requirements/run.lock")
_PROGRAMS = ("systemd-nspawn", "ip", "mount", "openssl")


def cache_directory() -> Path:
    """$ANYCLOUD_WORLD_ASSETS, else a folder of the user's cache."""
    if chosen := os.environ.get("ANYCLOUD_WORLD_ASSETS"):
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "anycloud" / "world-assets"


def root() -> Path:
    """The Debian root. It is never written to: VMs have an overlay on it."""
    return cache_directory() / f"root-{_digest(_ROOT_RECIPE)}"


def images() -> Path:
    """The folder of the images' archives."""
    return cache_directory() / f"images-{_digest(_IMAGES_RECIPE)}"


def base() -> Path:
    """The folder of the layer that the platform's image is begun with."""
    return cache_directory() / f"base-{_digest(_BASE_RECIPE)}"


def impossible() -> str | None:
    """Why VMs can't be on this machine at all, in one line; None where they can."""
    if sys.platform != "linux":
        return "the world of VMs needs Linux"
    if os.geteuid() != 0:
        return "the world of VMs needs root: run the tests as root"
    return None


def absent() -> str | None:
    """What is missing for the world of VMs, in one line that says how to get it; None when all is there."""
    if reason := impossible():
        return reason
    lacking = [name for name in _PROGRAMS if shutil.which(name) is None]
    lacking += [path.name for path in (root(), images(), base()) if not path.is_dir()]
    if lacking:
        return f"no {', '.join(lacking)}: run `{BUILD_COMMAND}` (needs root and apt on Debian)"
    if missing := programs.missing(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"]):
        return programs.how_to_get(missing)
    return None


def _digest(recipe: tuple[Path, ...]) -> str:
    text = hashlib.sha256()
    for path in recipe:
        text.update(path.read_bytes())
    return text.hexdigest()[:8]
