"""Secrets are in no log, no command line, no answer, no event, and nowhere in clear in the database."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
import yaml
from anycloud_cluster.rpc.cluster_messages import message
from anycloud_cluster.store import clusters, events

from tests.unit.cluster.fakes import AWS, INSTALLER_TOKEN, SIGN_IN, World
from tests.unit.cluster.installation import Installation, at_rest


@pytest.mark.req("CL-034", "CL-041", "AU-017", "CL-089")
async def test_no_secret_of_a_creation_is_in_clear_anywhere(
    installer: Installation, world: World, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await installer.create()
    await installer.step()
    keys = clusters.opened(installer.cipher, await installer.cluster(), "sealed_keys")
    cluster = await installer.drive(at_rest)
    keys = keys or clusters.opened(installer.cipher, cluster, "sealed_keys")
    config = yaml.safe_load(world.config or "")
    secrets = [
        SIGN_IN,
        INSTALLER_TOKEN,
        AWS["secretAccessKey"],
        config["token"],
        config["agent-token"],
        keys["userPrivate"].splitlines()[2],
        keys["hostPrivate"].splitlines()[2],
    ]
    stored = await asyncio.to_thread(content, database)
    log = await installer.store.read(lambda conn: events.of_cluster(conn, cluster.id))
    commands = [command for command, _ in world.transcript]
    places = {"log": caplog.text, "events": str(log), "answer": str(message(cluster, 0)), "commands": str(commands)}
    for secret in secrets:
        assert secret.encode() not in stored
        for place, text in places.items():
            assert secret not in text, place


def content(database: Path) -> bytes:
    return database.read_bytes() + database.with_name("cluster.sqlite-wal").read_bytes()


async def test_the_row_doesnt_print_its_sealed_columns(running: Installation) -> None:
    assert "sealed" not in repr(await running.cluster())
