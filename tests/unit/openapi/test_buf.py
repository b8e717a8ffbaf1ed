"""buf sees what would break a client, and bad style, with no network."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROTO = Path(__file__).resolve().parents[3] / "proto"
SECRETS = "anycloudapi/deployment/v1/secrets.proto"


@pytest.fixture(scope="module")
def buf() -> Any:
    """proto/ holds programs, which find each other beside themselves."""
    sys.path.insert(0, str(PROTO))
    try:
        return importlib.import_module("buf")
    finally:
        sys.path.remove(str(PROTO))


@pytest.fixture(scope="module")
def before(buf: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = buf.image(PROTO, tmp_path_factory.mktemp("before") / "before.binpb")
    return out


def changed(buf: Any, folder: Path, old: str, new: str) -> Path:
    shutil.copytree(PROTO / "anycloudapi", folder / "anycloudapi")
    file = folder / SECRETS
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    out: Path = buf.image(folder, folder / "now.binpb")
    return out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("int64 created_at = 2;", "int64 made_at = 2;", id="key renamed"),
        pytest.param("int64 created_at = 2;", "", id="key gone"),
        pytest.param("int64 created_at = 2;", "string created_at = 2;", id="other type"),
    ],
)
def test_a_change_that_breaks_a_client_is_found(
    buf: Any, before: Path, tmp_path: Path, old: str, new: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert buf.buf("breaking", changed(buf, tmp_path, old, new), "--against", before) != 0
    assert SECRETS in capfd.readouterr().out


def test_a_new_field_breaks_nobody(buf: Any, before: Path, tmp_path: Path) -> None:
    now = changed(buf, tmp_path, "int64 created_at = 2;", "int64 created_at = 2; int64 used_at = 9;")
    assert buf.buf("breaking", now, "--against", before) == 0


def test_our_protos_have_the_style_that_we_ask_for(buf: Any, before: Path) -> None:
    assert buf.buf("lint", before) == 0


def test_bad_style_is_found(buf: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    now = changed(buf, tmp_path, "int64 created_at = 2;", "int64 createdAt = 2;")
    assert buf.buf("lint", now) != 0
    assert "createdAt" in capfd.readouterr().out


def test_without_history_the_comparison_is_skipped(tmp_path: Path) -> None:
    shutil.copytree(PROTO, tmp_path / "proto", ignore=shutil.ignore_patterns("__pycache__"))
    line = [sys.executable, str(tmp_path / "proto" / "breaking.py")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "skipped" in done.stdout
