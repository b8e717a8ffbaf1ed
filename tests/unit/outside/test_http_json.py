"""The small JSON client: lazy, bounded in time, quiet about what it sent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
from anycloud_common.http_json import JsonClient, NoAnswer, may_use_proxy

from tests.unit.outside.conftest import Outside


async def test_a_silent_server_is_no_answer_within_the_deadline() -> None:
    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    client = JsonClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", deadline_s=0.3)
    began = time.monotonic()
    with pytest.raises(NoAnswer, match=r"0\.3 s"):
        await client.call("POST", "/x", headers={"Authorization": "s3cret"}, body={"a": "s3cret"})
    assert time.monotonic() - began < 5
    await client.close()
    server.close()


async def test_path_query_and_body_are_sent_as_given(outside: Outside) -> None:
    client = JsonClient(outside.url + "/base/")
    outside.answer = (418, {"message": "teapot"}, {"x-y": "z"})
    answer = await client.call("POST", "/p", query={"q": "a b&c"}, body={"n": 2**60})
    assert (answer.status, answer.ok, answer.text("message"), answer.headers["X-Y"]) == (418, False, "teapot", "z")
    assert outside.seen[0].path == "/base/p"
    assert outside.seen[0].query == {"q": "a b&c"}
    assert outside.seen[0].content_type == "application/json"
    await client.close()


def test_calls_to_this_machine_use_no_proxy() -> None:
    assert may_use_proxy("https://api.github.com")
    for url in ("http://127.0.0.1:1", "https://127.3.4.5:6443", "http://localhost:9", "http://[::1]:9"):
        assert not may_use_proxy(url)


def test_aiohttp_is_loaded_at_the_first_call_only() -> None:
    program = (
        "import sys, anycloud_common.github as g, anycloud_common.registry as r, anycloud_providers.opening as o\n"
        "g.GitHub('http://127.0.0.1:1'); r.Registry('http://127.0.0.1:1')\n"
        "o.open_provider('AWS', {'accessKeyId': 'a', 'secretAccessKey': 'b'}, 'http://127.0.0.1:1')\n"
        "print('aiohttp' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"
