"""Object storage of the user's accounts: not served. Buckets are used for the API's own backups alone."""

from __future__ import annotations

from typing import Any

from anycloud_common.errors import NotAvailable
from anycloudapi.cluster.v1 import buckets_pb2, buckets_pb2_grpc
from google.protobuf import empty_pb2


class BucketsServicer(buckets_pb2_grpc.BucketsServicer):
    async def ListBuckets(self, request: buckets_pb2.ListBucketsRequest, context: Any) -> buckets_pb2.BucketPage:
        raise _refusal("Listing buckets")

    async def GetBucket(self, request: buckets_pb2.GetBucketRequest, context: Any) -> buckets_pb2.Bucket:
        raise _refusal("Looking up a bucket")

    async def CreateBucket(self, request: buckets_pb2.CreateBucketRequest, context: Any) -> empty_pb2.Empty:
        raise _refusal("Making a bucket")

    async def DeleteBucket(self, request: buckets_pb2.DeleteBucketRequest, context: Any) -> empty_pb2.Empty:
        raise _refusal("Deleting a bucket")

    async def ListObjects(self, request: buckets_pb2.ListObjectsRequest, context: Any) -> buckets_pb2.ObjectPage:
        raise _refusal("Listing the objects of a bucket")

    async def DeleteObject(self, request: buckets_pb2.DeleteObjectRequest, context: Any) -> empty_pb2.Empty:
        raise _refusal("Deleting an object of a bucket")


def _refusal(what: str) -> NotAvailable:
    return NotAvailable(f"{what} isn't available in this API; use your cloud's own tools.")
