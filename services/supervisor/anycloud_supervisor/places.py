"""Where a local installation keeps things, below `$ANYCLOUD_DIR` or `~/.anycloud`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Places(NamedTuple):
    """`config` is shared with the CLI and the published client; all else is below `data`."""

    config: Path
    data: Path

    @staticmethod
    def of(environ: Mapping[str, str]) -> Places:
        chosen = environ.get("ANYCLOUD_DIR", "").strip()
        config = Path(chosen).expanduser().absolute() if chosen else Path.home() / ".anycloud"
        return Places(config, config / "data")

    @property
    def supervisor(self) -> Path:
        return supervisor_dir(self.data)

    @property
    def state(self) -> Path:
        return state_file(self.data)

    @property
    def lock(self) -> Path:
        return self.supervisor / "lock"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def sandbox(self) -> Path:
        return self.data / "sandbox"

    @property
    def world(self) -> Path:
        """Says `sandbox` or `real` from the first start on."""
        return self.data / "world"

    @property
    def local_token(self) -> Path:
        return self.config / "local-api-token"

    @property
    def sign_in(self) -> Path:
        return self.config / ".token"

    @property
    def api_url(self) -> Path:
        return self.config / "api-url"

    @property
    def local_url(self) -> Path:
        return self.config / "local-api-url"


def supervisor_dir(data: Path) -> Path:
    return data / "supervisor"


def state_file(data: Path) -> Path:
    return supervisor_dir(data) / "state.json"
