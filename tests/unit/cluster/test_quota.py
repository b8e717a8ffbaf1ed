"""Quota: nothing was ever canceled, and no cloud is asked."""

from __future__ import annotations

import pytest
from anycloud_cluster.rpc.quota import QuotaServicer
from anycloud_common.errors import NotAvailable
from anycloud_common.rest import Invalid
from anycloudapi.cluster.v1 import quota_pb2

from tests.support.operations import Operation

SERVICE = quota_pb2.DESCRIPTOR.services_by_name["Quota"]
STATUS = Operation(SERVICE, "GetQuotaStatus")


async def test_no_submission_was_ever_canceled() -> None:
    canceled = Operation(SERVICE, "ListCanceledQuota")
    answer = await QuotaServicer().ListCanceledQuota(canceled.request(), None)
    assert canceled.answer(answer) == (200, {"entries": []})


@pytest.mark.parametrize("more", [{}, {"region": "us-east-1", "wait_ms": "5000"}])
async def test_the_status_of_quotas_is_not_available(more: dict[str, str]) -> None:
    asked = STATUS.request(cloud="AWS", credential_name="aws", **more)
    with pytest.raises(NotAvailable, match="Reading quotas isn't available"):
        await QuotaServicer().GetQuotaStatus(asked, None)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"credential_name": "aws"}, "cloud: is required"),
        ({"cloud": "AWS"}, "credentialName: is required"),
        ({"cloud": "aws", "credential_name": "aws"}, "cloud: must be one of"),
        ({"cloud": "AWS", "credential_name": "aws", "wait_ms": "20001"}, "waitMs: must be an integer"),
    ],
)
def test_a_misshapen_request_is_refused(params: dict[str, str], text: str) -> None:
    with pytest.raises(Invalid) as refused:
        STATUS.request(**params)
    assert str(refused.value).startswith(text)
