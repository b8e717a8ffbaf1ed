"""Settings of a service process, read from the environment once at start."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

API_VERSION = "0.1.70"
_SERVICEACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
_PASSWORD = re.compile(r"//[^/]*@")
_SOCKET_PATH_BYTES = 107  # sun_path of unix(7) less its closing zero

Mode = Literal["installer", "hosted"]


class SettingsError(Exception):
    """A variable of the environment is missing or wrong; the text is one sentence with variable, value and rule."""


@dataclass(frozen=True)
class Settings:
    """What a service process is told. Paths are absolute; URLs have neither path nor closing slash."""

    mode: Mode
    data_dir: Path
    runtime_dir: Path
    public_url: str
    api_version: str = API_VERSION
    sandbox_url: str | None = None
    local_token_file: Path | None = None  # installer only
    release_values: Path | None = None  # hosted only
    serviceaccount_dir: Path = _SERVICEACCOUNT_DIR
    kubernetes_host: str | None = None  # hosted only
    kubernetes_port: int = 443
    metrics_port: int = 0  # 0: no metrics listener

    @property
    def hosted(self) -> bool:
        return self.mode == "hosted"

    @property
    def db_dir(self) -> Path:
        return self.data_dir / "db"

    @property
    def cipher_key(self) -> Path:
        return self.db_dir / "cipher.key"

    @property
    def incarnation(self) -> Path:
        return self.db_dir / "incarnation"

    def database(self, service: str) -> Path:
        return self.db_dir / f"{service}.sqlite"

    def socket(self, service: str) -> Path:
        return self.runtime_dir / f"{service}.sock"

    @staticmethod
    def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
        """Reads `ANYCLOUD_*` and `KUBERNETES_SERVICE_*`. Raises SettingsError."""
        env = _Environment(os.environ if environ is None else environ)
        mode = cast(Mode, env.choice("ANYCLOUD_MODE", ("installer", "hosted")))
        hosted = mode == "hosted"
        return Settings(
            mode=mode,
            data_dir=env.path("ANYCLOUD_DATA_DIR"),
            runtime_dir=env.socket_dir("ANYCLOUD_RUNTIME_DIR"),
            public_url=env.url("ANYCLOUD_PUBLIC_URL"),
            api_version=env.version("ANYCLOUD_API_VERSION"),
            sandbox_url=env.url("ANYCLOUD_SANDBOX_URL") if env.has("ANYCLOUD_SANDBOX_URL") else None,
            local_token_file=None if hosted else env.path("ANYCLOUD_LOCAL_TOKEN_FILE"),
            release_values=env.path("ANYCLOUD_RELEASE_VALUES") if hosted else None,
            serviceaccount_dir=env.path("ANYCLOUD_SERVICEACCOUNT_DIR", _SERVICEACCOUNT_DIR),
            kubernetes_host=env.text("KUBERNETES_SERVICE_HOST") if hosted else None,
            kubernetes_port=env.port("KUBERNETES_SERVICE_PORT", 443, lowest=1),
            metrics_port=env.port("ANYCLOUD_METRICS_PORT", 0, lowest=0),
        )


def data_directory(environ: Mapping[str, str] | None = None) -> Path:
    """ANYCLOUD_DATA_DIR alone, for programs that touch nothing but the data. Raises SettingsError."""
    return _Environment(os.environ if environ is None else environ).path("ANYCLOUD_DATA_DIR")


def api_version(environ: Mapping[str, str] | None = None) -> str:
    """ANYCLOUD_API_VERSION alone, or this build's own version. Raises SettingsError."""
    return _Environment(os.environ if environ is None else environ).version("ANYCLOUD_API_VERSION")


class _Environment:
    """Typed reading of variables; an empty value counts as absent."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        return bool(self._values.get(name))

    def text(self, name: str) -> str:
        value = self._values.get(name)
        if not value:
            raise SettingsError(f"{name} is not set; it must have a value.")
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in allowed:
            raise _wrong(name, value, f"must be one of {', '.join(allowed)}")
        return value

    def path(self, name: str, default: Path | None = None) -> Path:
        if default is not None and not self.has(name):
            return default
        value = self.text(name)
        if not Path(value).is_absolute():
            raise _wrong(name, value, "must be an absolute path")
        return Path(value)

    def socket_dir(self, name: str) -> Path:
        directory = self.path(name)
        longest = len(os.fsencode(directory / "deployment.sock"))
        if longest > _SOCKET_PATH_BYTES:
            rule = f"a socket's path in it would have {longest} bytes, and {_SOCKET_PATH_BYTES} are possible"
            raise _wrong(name, str(directory), f"must be shorter: {rule}")
        return directory

    def url(self, name: str) -> str:
        value = self.text(name)
        rule = "must be http:// or https:// with a host and no path"
        try:
            parts = urlsplit(value)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no port, a broken IPv6 address
            valid = False
        if not valid or parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
            raise _wrong(name, _PASSWORD.sub("//…@", value), rule)
        return value.rstrip("/")

    def version(self, name: str) -> str:
        value = self._values.get(name) or API_VERSION
        if not _VERSION.fullmatch(value):
            raise _wrong(name, value, "must be three numbers such as 0.1.70")
        return value

    def port(self, name: str, default: int, lowest: int) -> int:
        value = self._values.get(name) or str(default)
        if not (value.isascii() and value.isdigit() and len(value) <= 5 and lowest <= int(value) <= 65535):
            raise _wrong(name, value, f"must be a port from {lowest} to 65535")
        return int(value)


def _wrong(name: str, value: str, rule: str) -> SettingsError:
    return SettingsError(f"{name} is {value!r}; it {rule}.")
