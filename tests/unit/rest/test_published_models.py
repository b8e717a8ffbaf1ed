"""The published client's own models read our answers: also those that nothing answers with a value yet."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.rest import Codec, rules
from anycloudapi.cluster.v1 import buckets_pb2, quota_pb2
from anycloudapi.deployment.v1 import costs_pb2, notifications_pb2, services_pb2, spend_pb2, ssh_access_pb2
from anycloudapi.release.v1 import release_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

PYTHON = Path(__file__).resolve().parents[3] / ".demo" / "sdk" / "bin" / "python"
MODELS: dict[str, type[Message]] = {
    "BucketListPage": buckets_pb2.BucketPage,
    "BucketItem": buckets_pb2.Bucket,
    "BucketEntryPage": buckets_pb2.ObjectPage,
    "QuotaStatusResponse": quota_pb2.QuotaStatus,
    "WorkloadCostRowsInner": costs_pb2.GetWorkloadCostResponse.Row,
    "WorkloadCostReport": costs_pb2.CostReport,
    "WorkloadSshAccessResponse": ssh_access_pb2.GetSshAccessResponse,
    "ServiceUpgradeResponse": services_pb2.UpgradeServiceResponse,
    "ListNotificationsResponseInner": notifications_pb2.ListChannelsResponse.Entry,
    "RemoveNotificationResponse": notifications_pb2.DeleteChannelResponse,
    "ListBudgetsResponse": spend_pb2.ListBudgetsResponse,
    "ListThrottlesResponse": spend_pb2.ListThrottlesResponse,
    "SystemReleaseResponse": release_pb2.RequestSystemReleaseResponse,
    "SystemReleaseStatus": release_pb2.ReleaseStatus,
}
# Reads {model: [document]}, and prints what is refused or lost.
JUDGE = """
import json, sys
from anycloud import models
for name, documents in json.load(sys.stdin).items():
    for document in documents:
        try:
            read = json.loads(getattr(models, name).from_json(json.dumps(document)).to_json())
        except Exception as error:
            print(f"{name}: {error}")
            continue
        lost = {key for key, value in document.items() if value is not None} - set(read)
        if lost:
            print(f"{name}: {lost} was lost")
"""
CODEC = Codec()


def documents(model: type[Message]) -> Iterator[Any]:
    """JSON of the smallest answer, and of full ones until every enum value and every member of a union was in one."""
    yield json.loads(CODEC.json(_filled(model(), None)))
    for turn in range(7):
        yield json.loads(CODEC.json(_filled(model(), turn)))


def _filled(message: Any, turn: int | None) -> Any:
    """`turn` None sets only what an answer must have."""
    kind: Descriptor = message.DESCRIPTOR
    union = rules.union_of(kind)
    for field in rules.plain_fields(kind):
        if turn is None and (field.is_repeated or rules.is_optional(field)):
            continue
        _fill(message, field, turn)
    if union is not None:
        _fill(message, union.fields[(turn or 0) % len(union.fields)], turn)
    return message


def _fill(message: Any, field: FieldDescriptor, turn: int | None) -> None:
    target = getattr(message, field.name)
    if rules.is_map(field):
        _filled(target["key"], turn)
    elif field.is_repeated:
        if field.message_type is not None:
            _filled(target.add(), turn)
        else:
            target.append(_scalar(field, turn))
    elif field.message_type is not None:
        target.SetInParent()
        _filled(target, turn)
    else:
        setattr(message, field.name, _scalar(field, turn))


def _scalar(field: FieldDescriptor, turn: int | None) -> Any:
    if field.enum_type is not None:
        numbers = list(rules.wire_values(field.enum_type).values())
        return numbers[(turn or 0) % len(numbers)]
    if field.type == FieldDescriptor.TYPE_STRING:
        return "text"
    return True if field.type == FieldDescriptor.TYPE_BOOL else 1


def test_the_published_models_read_every_answer() -> None:
    if not PYTHON.exists():
        pytest.skip("the published client isn't installed; `make test` does it")
    asked = {name: list(documents(model)) for name, model in MODELS.items()}
    assert all(itertools.chain.from_iterable(asked.values()))
    judged = subprocess.run(
        [PYTHON, "-c", JUDGE], input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=60
    )
    assert (judged.stdout, judged.returncode) == ("", 0), judged.stderr
