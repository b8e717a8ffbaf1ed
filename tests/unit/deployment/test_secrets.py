"""Saved Secrets: names and times are told, values never."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from anycloud_common.rest import Invalid
from anycloudapi.deployment.v1 import secrets_pb2 as pb

from tests.unit.deployment.rig import NO_CONTEXT, Rig

MARKER = "marker-value-7f3a"


async def save(rig: Rig, name: str, values: dict[str, str]) -> None:
    rig.act_as()
    request = pb.SaveSecretRequest(name=name, secret=pb.SecretValues(values=values))
    await rig.service.secrets_rpc.SaveSecret(request, NO_CONTEXT)


async def listed(rig: Rig) -> list[Any]:
    rig.act_as()
    answer = await rig.service.secrets_rpc.ListSecrets(pb.ListSecretsRequest(), NO_CONTEXT)
    return list(answer.secrets)


async def delete(rig: Rig, name: str) -> None:
    rig.act_as()
    await rig.service.secrets_rpc.DeleteSecret(pb.DeleteSecretRequest(name=name), NO_CONTEXT)


@pytest.mark.req("SC-002")
async def test_saving_again_replaces_all_values_and_keeps_the_first_spelling(rig: Rig) -> None:
    await save(rig, "Model-DB", {"A": "1", "B": "2"})
    first = rig.clock.now_ms()
    await rig.clock.advance(1)
    await save(rig, "model-db", {"A": "3"})
    [one] = await listed(rig)
    assert (one.name, one.created_at, one.updated_at) == ("Model-DB", first, first + 1000)


async def test_lists_are_by_name(rig: Rig) -> None:
    for name in ("b", "C", "a"):
        await save(rig, name, {"A": "1"})
    assert [one.name for one in await listed(rig)] == ["a", "b", "C"]


async def test_deleting_what_does_not_exist_succeeds(rig: Rig) -> None:
    await delete(rig, "nosuch")
    await save(rig, "db", {"A": "1"})
    await delete(rig, "DB")
    assert await listed(rig) == []


@pytest.mark.req("OPEN-068")
@pytest.mark.parametrize("key", ["1A", "A-B", "A.B", "", "A B"])
async def test_a_key_that_is_no_variable_is_refused_by_name_and_without_its_value(rig: Rig, key: str) -> None:
    with pytest.raises(Invalid) as refusal:
        await save(rig, "db", {key: MARKER})
    assert repr(key) in str(refusal.value)
    assert MARKER not in str(refusal.value)
    assert await listed(rig) == []


@pytest.mark.parametrize("name", ["", "1a", "a b", "a" * 65, "a.b"])
async def test_names_have_a_shape(rig: Rig, name: str) -> None:
    with pytest.raises(Invalid, match="letters, digits"):
        await save(rig, name, {"A": "1"})


@pytest.mark.req("SC-006")
async def test_a_value_is_in_no_answer_no_event_and_not_readable_in_the_database(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await save(rig, "db", {"A": MARKER})
    deployment_id, _ = await rig.running(secrets=["db"], env={"B": MARKER})
    await rig.update("voice", image="acme/model:v2")
    await rig.reconcile(deployment_id)
    told = [str(answer) for answer in (await listed(rig), await rig.listed(), await rig.get("voice"))]
    rig.store.close()
    with closing(sqlite3.connect(rig.path)) as conn:
        tables = [name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [row for table in tables for row in conn.execute(f"SELECT * FROM {table}")]
    assert rows
    assert MARKER not in " ".join(told) + caplog.text + str(rows)
    assert MARKER.encode().hex() not in b"".join(v for row in rows for v in row if isinstance(v, bytes)).hex()
