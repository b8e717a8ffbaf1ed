"""Which kind of control plane a sandbox has is decided by its first start."""

from __future__ import annotations

from pathlib import Path

import pytest
from anycloud_control_plane.programs import HELM, SERVERS
from anycloud_supervisor import kube_assets
from anycloud_supervisor.failures import SupervisorError


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    (tmp_path / "sandbox" / "world").mkdir(parents=True)
    return tmp_path / "sandbox"


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "assets", "etcd", *SERVERS, *HELM)


def folder_of(path: Path, *programs: str) -> Path:
    path.mkdir()
    for name in programs:
        (path / name).touch(0o755)
    return path


def test_the_option_goes_before_the_variable() -> None:
    assert kube_assets.asked(None, {}) is None
    assert kube_assets.asked(None, {"ANYCLOUD_KUBE_ASSETS": "/variable"}) == "/variable"
    assert kube_assets.asked("/option", {"ANYCLOUD_KUBE_ASSETS": "/variable"}) == "/option"
    assert kube_assets.asked(None, {"KUBEBUILDER_ASSETS": "/convention"}) is None


def test_a_first_start_takes_the_conventions_folder_if_it_has_everything(
    sandbox: Path, assets: Path, tmp_path: Path
) -> None:
    some = folder_of(tmp_path / "some", "etcd", "kube-apiserver", "kubectl")
    kube_assets.choose(sandbox, None, {"KUBEBUILDER_ASSETS": str(assets)})
    assert kube_assets.folders(sandbox, {}) == [assets]
    (sandbox / "kube-assets").unlink()
    for folder in (some, assets):  # the second time it is no first start any more
        kube_assets.choose(sandbox, None, {"KUBEBUILDER_ASSETS": str(folder)})
        assert kube_assets.folders(sandbox, {}) == []


def test_a_later_start_without_a_word_goes_on_as_the_first(sandbox: Path, assets: Path) -> None:
    kube_assets.choose(sandbox, str(assets), {})
    kube_assets.choose(sandbox, None, {})
    assert kube_assets.folders(sandbox, {}) == [assets]


def test_a_sandbox_that_plays_its_control_planes_itself_goes_on_so(sandbox: Path, assets: Path) -> None:
    kube_assets.choose(sandbox, None, {})
    assert kube_assets.folders(sandbox, {}) == []
    with pytest.raises(SupervisorError, match="begun without --kube-assets"):
        kube_assets.choose(sandbox, str(assets), {})


def test_a_sandbox_from_before_the_choice_plays_them_itself(sandbox: Path, assets: Path) -> None:
    (sandbox / "world" / "sandbox.sqlite").touch()
    with pytest.raises(SupervisorError, match="begun without --kube-assets"):
        kube_assets.choose(sandbox, str(assets), {})


def test_a_folder_may_move_but_must_have_the_programs(sandbox: Path, assets: Path, tmp_path: Path) -> None:
    kube_assets.choose(sandbox, str(assets), {})
    newer = folder_of(tmp_path / "newer", "kine", *SERVERS)
    with pytest.raises(SupervisorError, match=r"lacks helm, helm-controller; `make kube-assets` builds them"):
        kube_assets.choose(sandbox, str(newer), {})
    assert kube_assets.folders(sandbox, {}) == [assets]
    convention = {"KUBEBUILDER_ASSETS": str(folder_of(tmp_path / "convention", *HELM))}
    kube_assets.choose(sandbox, str(newer), convention)
    assert kube_assets.folders(sandbox, convention) == [tmp_path / "convention", newer]
