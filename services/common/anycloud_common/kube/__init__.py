"""Speaking to Kubernetes API servers. The official client behind it is loaded at the first call only."""

from anycloud_common.kube.client import FIELD_MANAGER, Kube, ServerVersion
from anycloud_common.kube.connection import (
    SUPPORTED_MINORS,
    ConnectionReport,
    Permission,
    check_connection,
    cluster_uid,
)
from anycloud_common.kube.diff import Event, EventType, Key
from anycloud_common.kube.errors import Foreign, KubeError, Reason
from anycloud_common.kube.kinds import KINDS, Kind, Object
from anycloud_common.kube.reflector import Reflector
from anycloud_common.kube.tokens import TokenIdentity

__all__ = [
    "FIELD_MANAGER",
    "KINDS",
    "SUPPORTED_MINORS",
    "ConnectionReport",
    "Event",
    "EventType",
    "Foreign",
    "Key",
    "Kind",
    "Kube",
    "KubeError",
    "Object",
    "Permission",
    "Reason",
    "Reflector",
    "ServerVersion",
    "TokenIdentity",
    "check_connection",
    "cluster_uid",
]
