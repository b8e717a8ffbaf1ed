"""Whether the sandbox's control planes are Kubernetes' own programs, and where those are. The first start decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anycloud_control_plane.programs import missing

from anycloud_supervisor import files
from anycloud_supervisor.failures import SupervisorError

VARIABLE = "ANYCLOUD_KUBE_ASSETS"
_CONVENTION = "KUBEBUILDER_ASSETS"  # of the envtest tools: a folder that goes first where it has a program


def asked(given: str | None, environ: Mapping[str, str]) -> str | None:
    """The folder that a start names, by option or variable."""
    chosen = given or environ.get(VARIABLE, "").strip()
    return str(Path(chosen).expanduser().absolute()) if chosen else None


def choose(sandbox: Path, wanted: str | None, environ: Mapping[str, str]) -> None:
    """Writes down which folder this sandbox uses, or that it uses none. A later start without a word goes on as the
    first, and none changes from one kind of control plane to the other. Raises SupervisorError, OSError.

    The convention's folder is taken for a word at a first start, if it has everything: it is mostly set for others."""
    path, begun = sandbox / "kube-assets", (sandbox / "world" / "sandbox.sqlite").exists()
    kept = files.read(path) or ("none" if begun else None)
    convention = environ.get(_CONVENTION, "").strip()
    if kept is None and wanted is None and convention and not missing([Path(convention)]):
        wanted = convention
    if kept == "none" and wanted:
        raise SupervisorError(
            f"The sandbox in {sandbox} was begun without --kube-assets: leave it out (and {VARIABLE} unset),"
            " or choose another ANYCLOUD_DIR."
        )
    folder = wanted or kept or "none"
    if folder != "none" and (absent := missing(_folders(folder, environ))):
        raise SupervisorError(f"{folder} lacks {', '.join(absent)}; `make kube-assets` builds them, and says where.")
    files.write(path, folder + "\n")


def folders(sandbox: Path, environ: Mapping[str, str]) -> list[Path]:
    """Where the programs are; nowhere for a sandbox that plays the control planes itself. Raises OSError."""
    kept = files.read(sandbox / "kube-assets")
    return [] if kept in (None, "none") else _folders(str(kept), environ)


def _folders(folder: str, environ: Mapping[str, str]) -> list[Path]:
    convention = environ.get(_CONVENTION, "").strip()
    return [*([Path(convention)] if convention else []), Path(folder)]
