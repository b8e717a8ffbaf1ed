from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from anycloud_common.server import serving, sockets
from anycloud_common.server.sockets import SocketError

from tests.unit.server import probe_api
from tests.unit.server.probe_api import Probe


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_the_socket_is_its_owners_alone(probe: Probe, runtime_dir: Path) -> None:
    assert mode(runtime_dir) == 0o700
    assert stat.S_ISSOCK((runtime_dir / "probe.sock").lstat().st_mode)
    assert mode(runtime_dir / "probe.sock") == 0o600


def test_making_private_files_leaves_the_umask_as_it_was() -> None:
    before = os.umask(0o022)
    try:
        with sockets.private_files():
            pass
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(SocketError, match="0755"):
        sockets.private_directory(tmp_path)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(SocketError, match="belongs to user"):
        sockets.private_directory(tmp_path)


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(SocketError, match="not a directory"):
        sockets.private_directory(tmp_path / "link")


async def test_a_socket_left_by_a_dead_process_is_replaced(runtime_dir: Path) -> None:
    sockets.private_directory(runtime_dir)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(runtime_dir / "probe.sock"))
    async with (
        serving("probe", probe_api.settings(runtime_dir), Probe().build),
        probe_api.channel(runtime_dir) as channel,
    ):
        await channel.channel_ready()


async def test_a_socket_that_somebody_serves_is_left_alone(probe: Probe, runtime_dir: Path) -> None:
    with pytest.raises(SocketError, match="Another process serves"):
        async with serving("probe", probe_api.settings(runtime_dir), Probe().build):
            pass
    async with probe_api.channel(runtime_dir) as channel:
        await channel.channel_ready()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "probe.sock").write_text("mine")
    with pytest.raises(SocketError, match="not a socket"):
        sockets.clear(tmp_path / "probe.sock")
    assert (tmp_path / "probe.sock").read_text() == "mine"
