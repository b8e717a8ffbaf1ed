"""Quotas of the user's accounts: this API neither reads them nor asks for more."""

from __future__ import annotations

from typing import Any

from anycloud_common.errors import NotAvailable
from anycloudapi.cluster.v1 import quota_pb2, quota_pb2_grpc


class QuotaServicer(quota_pb2_grpc.QuotaServicer):
    async def GetQuotaStatus(self, request: quota_pb2.GetQuotaStatusRequest, context: Any) -> quota_pb2.QuotaStatus:
        raise NotAvailable("Reading quotas isn't available in this API; your cloud's console shows them.")

    async def ListCanceledQuota(
        self, request: quota_pb2.ListCanceledQuotaRequest, context: Any
    ) -> quota_pb2.QuotaStatus:
        """None was ever made, so none was canceled."""
        return quota_pb2.QuotaStatus()
