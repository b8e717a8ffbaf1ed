"""What may reach the management VM."""

from __future__ import annotations

from typing import Any, Final

# Cloudflare's published IPv4 ranges: the API's own port is for its edge alone.
CLOUDFLARE: Final = (
    "173.245.48.0/20",
    "103.21.244.0/22",
    "103.22.200.0/22",
    "103.31.4.0/22",
    "141.101.64.0/18",
    "108.162.192.0/18",
    "190.93.240.0/20",
    "188.114.96.0/20",
    "197.234.240.0/22",
    "198.41.128.0/17",
    "162.158.0.0/15",
    "104.16.0.0/13",
    "104.24.0.0/14",
    "172.64.0.0/13",
    "131.0.72.0/22",
)


def management_rules() -> list[dict[str, Any]]:
    """SSH and the join endpoint from everywhere, HTTP from Cloudflare, and nothing else."""
    return [
        {"protocol": "tcp", "ports": [22, 6443], "sources": ["0.0.0.0/0"]},
        {"protocol": "tcp", "ports": [80, 443], "sources": list(CLOUDFLARE)},
    ]
