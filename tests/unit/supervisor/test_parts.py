"""The small parts: back-off, logs, files, the runtime directory, the state file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from anycloud_common.clock import ManualClock
from anycloud_supervisor import files, logs, record
from anycloud_supervisor.backoff import Backoff
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.logs import LogFile
from anycloud_supervisor.runtime_dir import runtime_dir


def test_pauses_double_from_half_a_second_to_thirty() -> None:
    backoff = Backoff()
    assert [backoff.after(1) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_minute_of_life_begins_the_pauses_anew() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.after(59.9)
    assert backoff.after(60) == 0.5
    assert backoff.after(0) == 1


def _write(log: LogFile, text: str) -> None:
    descriptor = log.open()
    os.write(descriptor, text.encode())
    os.close(descriptor)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one\ntwo\n\n", "two"),
        ('{"level":"info","event":"a"}\n{"level":"info","event":"stopped"}\n', "stopped"),
        (
            '{"level":"critical","event":"the service can\'t start","traceback":"Traceback\\n  File x\\n'
            'a.b.StoreOpenError: The database is newer."}\n{"level":"info","event":"stopped"}\n',
            "The database is newer.",
        ),
        (
            json.dumps(
                {
                    "level": "critical",
                    "event": "can't start",
                    "traceback": 'Traceback:\n  File "a"\n    x\n    ^\nq.E: no table\n[SQL: x]\n(see: y)',
                }
            ),
            "no table",
        ),
        ('{"level":"error","event":"Port 1 is taken: choose another."}\n', "Port 1 is taken: choose another."),
        ("", None),
    ],
)
def test_last_words_are_the_last_error_else_the_last_line(tmp_path: Path, text: str, words: str | None) -> None:
    log = LogFile(tmp_path / "logs" / "x.log")
    _write(log, text)
    assert log.last_words() == words


def test_last_words_are_those_of_the_present_run(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "x.log")
    _write(log, "of an earlier run\n")
    _write(log, "")
    assert log.last_words() is None


def test_a_large_log_is_put_aside_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_ROTATE_BYTES", 10)
    log = LogFile(tmp_path / "x.log")
    for number in range(6):
        _write(log, f"run number {number}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2", "x.log.3"]
    assert (tmp_path / "x.log").read_text() == "run number 5\n"
    assert (tmp_path / "x.log.3").read_text() == "run number 2\n"


def test_files_are_private_and_leave_no_scratch(tmp_path: Path) -> None:
    files.write(tmp_path / "token", "one")
    files.write(tmp_path / "token", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["token"]
    assert (tmp_path / "token").read_text() == "two"
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SupervisorError, match=r"Cannot write to .*/file/data: Not a directory\."):
        files.make_directory(tmp_path / "file" / "data")


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    with files.locked(tmp_path / "lock") as first, files.locked(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with files.locked(tmp_path / "lock") as again:
        assert again


@pytest.fixture
def xdg(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_the_runtime_directory_is_short_private_the_same_each_time_and_gone_in_the_end(
    tmp_path: Path, xdg: dict[str, str]
) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    with runtime_dir(deep, xdg) as made:
        assert made.parent == tmp_path / "anycloud"
        assert len(made.name) == 8
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        (made / "x.sock").touch()
    assert not made.exists()
    with runtime_dir(deep, xdg) as again, runtime_dir(tmp_path, xdg) as other:
        assert again == made != other


def test_a_runtime_directory_too_long_for_a_socket_gives_way_to_tmp(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    with runtime_dir(tmp_path, {"XDG_RUNTIME_DIR": str(long)}) as made:
        assert made.parent == Path(f"/tmp/anycloud-{os.getuid()}")


def _left(tmp_path: Path, xdg: dict[str, str]) -> Path:
    """Where the directory is, with what a killed supervisor or somebody else may have left there."""
    with runtime_dir(tmp_path, xdg) as made:
        pass
    return made


def test_a_runtime_directory_that_others_can_enter_is_refused(tmp_path: Path, xdg: dict[str, str]) -> None:
    _left(tmp_path, xdg).mkdir(mode=0o755)
    with pytest.raises(SupervisorError, match="has mode 0755; it must have 0700"), runtime_dir(tmp_path, xdg):
        pass


def test_a_runtime_directory_that_is_a_link_is_refused(tmp_path: Path, xdg: dict[str, str]) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    _left(tmp_path, xdg).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SupervisorError, match="is not a directory"), runtime_dir(tmp_path, xdg):
        pass
    assert (tmp_path / "elsewhere").exists()


def test_a_runtime_directory_of_another_user_is_refused(
    tmp_path: Path, xdg: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _left(tmp_path, xdg)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(SupervisorError, match="it must belong to user 4711"), runtime_dir(tmp_path, xdg):
        pass


def test_the_state_file_names_its_owner_and_each_process(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = record.Record(path, {"url": "http://127.0.0.1:1"}, ManualClock())
    state.process("cluster", pid=7, state="running")
    state.process("cluster", state="stopped")
    state.phase("serving")
    facts = json.loads(path.read_text())
    assert record.owner(facts) is not None
    assert (facts["pid"], facts["phase"], facts["url"]) == (os.getpid(), "serving", "http://127.0.0.1:1")
    assert facts["processes"] == [{"name": "cluster", "pid": 7, "state": "stopped"}]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"processes": 1}'])
def test_a_damaged_state_file_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert record.read(tmp_path / "state.json") is None
