"""A load generator that costs little beside what it measures: one process, raw sockets, the request's bytes made once.

Usage: load.py <port> <connections> <seconds> < request
Each connection asks again as soon as its answer is whole. Prints JSON: rps, p50_ms, p99_ms.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time


class Connection:
    """Asks for ever. An answer other than 2xx, or none, ends the run with what came instead."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = request
        self._got = b""
        self._length = 0

    def ask(self) -> None:
        self._got, self._length = b"", 0
        self._began = time.perf_counter()
        self.socket.sendall(self._request)

    def took(self) -> float | None:
        """Reads what is there; seconds since the question once the answer is whole."""
        piece = self.socket.recv(1 << 18)
        if not piece:
            raise SystemExit("the server closed a connection")
        self._got = self._got + piece if self._got else piece
        if not self._length:
            self._length = whole(self._got)
        return time.perf_counter() - self._began if self._length and len(self._got) >= self._length else None


def whole(got: bytes) -> int:
    """Bytes of the answer, head and body, or 0 while the head isn't there."""
    end = got.find(b"\r\n\r\n")
    if end < 0:
        return 0
    head = got[:end].lower()
    if not head.startswith(b"http/1.1 2"):
        raise SystemExit(f"not a success: {got!r}")
    at = head.find(b"content-length:")
    if at < 0:
        raise SystemExit(f"an answer without content-length: {got!r}")
    return end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])


def run(port: int, count: int, seconds: float, request: bytes) -> dict[str, float]:
    made = [Connection(port, request) for _ in range(count)]
    by_number = {one.socket.fileno(): one for one in made}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    began = time.perf_counter()
    for one in made:
        one.ask()
    taken: list[float] = []
    while (now := time.perf_counter()) < began + seconds or not taken:
        for number, _ in poll.poll(max(began + seconds - now, 0.1)):
            one = by_number[number]
            took = one.took()
            if took is not None:
                taken.append(took)
                one.ask()
    lasted = time.perf_counter() - began
    taken.sort()
    return {
        "rps": len(taken) / lasted,
        "p50_ms": taken[len(taken) // 2] * 1000,
        "p99_ms": taken[min(len(taken) - 1, int(len(taken) * 0.99))] * 1000,
    }


if __name__ == "__main__":
    port, count, seconds = sys.argv[1:]
    print(json.dumps(run(int(port), int(count), float(seconds), sys.stdin.buffer.read())))
