"""Healthy gRPC servers on Unix sockets, run as a script by tests: `fake_services.py SOCKET...`."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2_grpc


def serve(sockets: list[str]) -> None:
    servers = []
    for socket in sockets:
        server = grpc.server(ThreadPoolExecutor(2))
        health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        servers.append(server)
    for server in servers:
        server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1:])
