"""The active API: its URL and the tokens that may be sent to it.

One host's token is never sent to another host: each source below is tied to the URL for which it was made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from anycloud_cli.directory import Directory
from anycloud_cli.failures import USAGE, Failure

DEFAULT_URL = "http://localhost:8080"
SIGN_IN_FILE = ".token"
TOKENS_FILE = "api-tokens.json"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Target:
    """An API. `url` is normalised: trimmed, no closing slash. `bearer` None means that no token is known for it."""

    url: str
    bearer: str | None = field(default=None, repr=False)
    github_token: str | None = field(default=None, repr=False)

    @property
    def local(self) -> bool:
        """Whether this is the API of this machine. The sandbox's hosted API at 127.0.0.2 isn't."""
        return is_local(self.url)

    @property
    def base(self) -> str:
        """The URL under which the operations lie."""
        return self.url if self.url.endswith("/v1") else f"{self.url}/v1"


def normalise(url: str) -> str:
    """The spelling under which a URL is stored and compared. Failure unless it is an absolute http or https URL."""
    trimmed = url.strip().rstrip("/")
    try:
        parts = urlsplit(trimmed)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no port, a broken IPv6 address
        raise _not_a_url() from None
    if not valid or "@" in parts.netloc or parts.query or parts.fragment or not trimmed.isprintable():
        raise _not_a_url()
    return trimmed


def _not_a_url() -> Failure:
    rule = "an API's URL is http:// or https:// with a host, and without user, query or fragment"
    return Failure(f"That isn't the URL of an API: {rule}.", exit_code=USAGE)


def is_local(url: str) -> bool:
    return _split(url).hostname in _LOOPBACK_NAMES


def is_on_this_machine(url: str) -> bool:
    """Whether the traffic never leaves this machine: any loopback address."""
    host = _split(url).hostname or ""
    return host in _LOOPBACK_NAMES or (host.startswith("127.") and host.replace(".", "").isdigit())


def _split(url: str) -> SplitResult:
    return urlsplit(url)


def active(directory: Directory, environ: Mapping[str, str]) -> Target:
    """The API that commands go to: `API_URL`, else the directory's `api-url`, else the local default."""
    url = normalise(environ.get("API_URL", "").strip() or directory.read("api-url") or DEFAULT_URL)
    if is_local(url):
        return Target(url, directory.read("local-api-token"), github_token(directory, environ))
    return Target(url, _hosted_token(url, directory, environ))


def github_token(directory: Directory, environ: Mapping[str, str]) -> str | None:
    """The GitHub sign-in of this user, if any."""
    return directory.read(SIGN_IN_FILE) or environ.get("GITHUB_TOKEN", "").strip() or None


def _hosted_token(url: str, directory: Directory, environ: Mapping[str, str]) -> str | None:
    from_environment = environ.get("ANYCLOUD_API_TOKEN", "").strip()
    named = environ.get("API_URL", "").strip()
    if from_environment and named and normalise(named) == url:
        return from_environment
    token = stored_tokens(directory).get(url)
    return token if isinstance(token, str) and token else None


def stored_tokens(directory: Directory) -> dict[str, object]:
    """Tokens of hosted APIs by normalised URL. A damaged file counts as none."""
    try:
        tokens = json.loads(directory.read(TOKENS_FILE) or "{}")
    except ValueError:
        return {}
    return tokens if isinstance(tokens, dict) else {}


def store_token(directory: Directory, url: str, token: str) -> None:
    """Keeps a hosted API's token under that exact URL."""
    tokens = stored_tokens(directory)
    tokens[url] = token
    directory.write(TOKENS_FILE, json.dumps(tokens, indent=2))
