"""Notifications, as gRPC: this API sends none, so no channel is ever configured."""

from __future__ import annotations

from typing import Any

import grpc
from anycloud_common.errors import ApiError, NotAvailable
from anycloudapi.deployment.v1 import notifications_pb2 as pb
from anycloudapi.deployment.v1.notifications_pb2_grpc import NotificationsServicer
from google.protobuf.empty_pb2 import Empty

Context = grpc.aio.ServicerContext[Any, Any]

_NONE = "Notifications aren't available in this API: it sends no messages"


class NotificationsService(NotificationsServicer):
    async def ListChannels(self, request: pb.ListChannelsRequest, context: Context) -> pb.ListChannelsResponse:
        return pb.ListChannelsResponse()

    async def SaveChannel(self, request: pb.SaveChannelRequest, context: Context) -> Empty:
        raise NotAvailable(f"{_NONE}, and keeps no channel for them.")

    async def TestChannel(self, request: pb.TestChannelRequest, context: Context) -> Empty:
        if request.test.HasField("webhook"):
            raise NotAvailable(f"{_NONE}, so no webhook can be tested.")
        raise ApiError("CHANNEL_NOT_CONFIGURED", "The channel slack isn't configured.")

    async def DeleteChannel(self, request: pb.DeleteChannelRequest, context: Context) -> pb.DeleteChannelResponse:
        return pb.DeleteChannelResponse(removed=False)
