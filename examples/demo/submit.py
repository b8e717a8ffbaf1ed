"""Submits Jobs to a Deployment through the published client and prints their ids.

Usage: python submit.py DEPLOYMENT COUNT (in an environment with anycloud-sdk, which finds the active API by itself).
"""

from __future__ import annotations

import sys

from anycloud_workflows import Client


def main(deployment: str, count: int) -> None:
    with Client() as client:
        for _ in range(count):
            print(client.submit(deployment=deployment).id, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
