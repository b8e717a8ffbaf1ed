"""The server that every service stands on."""

from anycloud_common.server.draining import Draining
from anycloud_common.server.gate import Authenticator
from anycloud_common.server.kit import ServerKit, serving
from anycloud_common.server.run import run

__all__ = ["Authenticator", "Draining", "ServerKit", "run", "serving"]
