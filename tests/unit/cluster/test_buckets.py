"""Buckets: every operation takes the published requests, and says that it isn't available."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_cluster.rpc.buckets import BucketsServicer
from anycloud_common.errors import NotAvailable
from anycloud_common.rest import Invalid
from anycloudapi.cluster.v1 import buckets_pb2

from tests.support.operations import Operation

SERVICE = buckets_pb2.DESCRIPTOR.services_by_name["Buckets"]
BUCKET = {"credential_name": "aws", "bucket_name": "data", "region": "us-east-1"}


async def call(method: str, **params: str) -> Any:
    return await getattr(BucketsServicer(), method)(Operation(SERVICE, method).request(**params), None)


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("ListBuckets", {"credential_name": "aws", "page_size": "100", "cursor": "c"}, "Listing buckets"),
        ("GetBucket", BUCKET, "a bucket"),
        ("CreateBucket", BUCKET, "Making a bucket"),
        ("DeleteBucket", BUCKET, "Deleting a bucket"),
        ("ListObjects", BUCKET | {"prefix": "", "recursive": "true", "page_size": "100"}, "the objects of a bucket"),
        ("DeleteObject", BUCKET | {"remote_path": "a/b"}, "Deleting an object"),
    ],
)
async def test_no_operation_is_available_and_each_says_what(method: str, params: dict[str, str], named: str) -> None:
    with pytest.raises(NotAvailable, match=named) as said:
        await call(method, **params)
    assert "isn't available" in str(said.value)


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("ListBuckets", {"credential_name": "aws", "page_size": "0"}, "pageSize: must be an integer"),
        ("ListBuckets", {"credential_name": "aws", "cursor": ""}, "cursor: must have"),
        ("GetBucket", BUCKET | {"region": ""}, "region: must have"),
        ("ListObjects", BUCKET | {"recursive": "yes"}, "recursive: must be true or false"),
        ("DeleteObject", BUCKET, "remotePath: is required"),
        ("DeleteObject", BUCKET | {"remote_path": ""}, "remotePath: must have"),
    ],
)
async def test_a_misshapen_request_is_refused_first(method: str, params: dict[str, str], text: str) -> None:
    with pytest.raises(Invalid) as refused:
        await call(method, **params)
    assert str(refused.value).startswith(text)
