"""The configuration directory: which API is active, and the tokens that open it.

`$ANYCLOUD_DIR`, or `~/.anycloud`. Its file names are shared with the published client, which reads them too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from anycloud_cli.failures import Failure


class Directory:
    """Reads and writes files in one directory: 0700 for itself, 0600 for its files, each replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def of(environ: Mapping[str, str]) -> Directory:
        chosen = environ.get("ANYCLOUD_DIR", "").strip()
        return Directory(Path(chosen).expanduser().absolute() if chosen else Path.home() / ".anycloud")

    def read(self, name: str) -> str | None:
        """The trimmed text of a file, or None when it is absent or blank."""
        path = self.path / name
        try:
            return path.read_text("utf-8").strip() or None
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"Cannot read {path}: {_reason(error)}.") from error

    def write(self, name: str, text: str) -> None:
        """Replaces a file, so that a reader finds the old text or the new one and nothing between."""
        path = self.path / name
        scratch = path.with_name(f"{name}.{os.getpid()}.new")
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write_durably(scratch, text)
            scratch.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise Failure(f"Cannot write {path}: {_reason(error)}.") from error

    def remove(self, name: str) -> bool:
        """Whether a file was there; it isn't any more."""
        path = self.path / name
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Failure(f"Cannot remove {path}: {_reason(error)}.") from error
        return True

    @staticmethod
    def _write_durably(path: Path, text: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it isn't UTF-8 text"
