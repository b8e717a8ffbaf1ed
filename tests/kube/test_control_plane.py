"""The control plane of the tests itself: what it keeps, whom it knows, and that it leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.assets import location
from tests.kube.assets.location import MissingPrograms
from tests.kube.waiting import until
from tests.support.control_plane import ControlPlane, Datastore, Refused

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}


@pytest.mark.parametrize("datastore", ["etcd", "kine"])
def test_objects_and_keys_outlive_a_restart(tmp_path: Path, datastore: Datastore) -> None:
    try:
        plane = ControlPlane(tmp_path, datastore)
    except MissingPrograms as absent:
        pytest.skip(str(absent))
    with plane:
        token = plane.service_account("tests", "reader", [PODS])
        made = plane.call("POST", "/api/v1/namespaces/tests/configmaps", {"metadata": {"name": "c"}})
        plane.stop()
        plane.start()
        assert plane.call("GET", "/api/v1/namespaces/tests/configmaps/c")["metadata"] == made["metadata"]
        assert plane.call("GET", "/api/v1/pods", token=token)["items"] == []


async def test_callers_can_be_told_apart_in_the_audit_log(plane: ControlPlane) -> None:
    token = plane.service_account("audit", "caller", [PODS])
    plane.call("GET", "/api/v1/pods", token=token)
    with pytest.raises(Refused):
        plane.call("GET", "/api/v1/secrets", token=token)

    async def seen() -> list[tuple[str, str, int]] | None:
        """An event may be written a moment after the answer was sent."""
        ours = [one for one in plane.requests() if one["user"].get("username") == "system:serviceaccount:audit:caller"]
        calls = [(one["verb"], one["objectRef"]["resource"], one["responseStatus"]["code"]) for one in ours]
        return calls if len(calls) >= 2 else None

    assert await until(seen) == [("list", "pods", 200), ("list", "secrets", 403)]


def test_it_refuses_the_anonymous(plane: ControlPlane) -> None:
    with pytest.raises(Refused) as caught:
        plane.call("GET", "/version", token="nobody")
    assert caught.value.status == 401


def test_a_program_that_ends_at_once_is_named_with_its_last_words(plane: ControlPlane, tmp_path: Path) -> None:
    broken = ControlPlane(tmp_path)
    broken.port = plane.port  # taken
    with pytest.raises(RuntimeError, match="kube-apiserver ended"), broken:
        pass


# Where the programs are


def test_the_convention_goes_first_and_the_rest_comes_from_our_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convention, cache = tmp_path / "convention", tmp_path / "cache"
    for path in (convention / "etcd", cache / "etcd", cache / "kubectl"):
        path.parent.mkdir(exist_ok=True)
        path.touch(0o755)
    (cache / "helm").touch(0o644)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(convention))
    monkeypatch.setenv("ANYCLOUD_KUBE_ASSETS", str(cache))
    assert location.find("etcd") == convention / "etcd"
    assert location.find("kubectl") == cache / "kubectl"
    assert location.missing(["etcd", "helm", "kine"]) == ["helm", "kine"]
    with pytest.raises(MissingPrograms, match=r"no helm: run `make kube-assets`"):
        location.locate("helm")


def test_the_cache_is_outside_the_tree_and_named_after_the_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYCLOUD_KUBE_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    directory = location.cache_directory()
    assert directory.parent == Path("/somewhere/anycloud/kube-assets")
    assert directory.name.startswith(f"{location.kubernetes_version()}-")


def test_every_program_has_a_pinned_module() -> None:
    for folder, package in location.PROGRAMS.values():
        assert (location.HERE / folder / "go.sum").is_file()
        assert (
            f"tool {package}" in (text := (location.HERE / folder / "go.mod").read_text()) or f"\t{package}\n" in text
        )
    assert location.kubernetes_version().startswith("v1.35.")
