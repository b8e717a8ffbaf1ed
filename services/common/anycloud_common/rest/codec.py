"""The codec: JSON <-> typed messages, as the descriptors and their options say. Why not proto3 JSON: docs/codec.md."""

from __future__ import annotations

from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from anycloud_common.rest import decode, encode, patch
from anycloud_common.rest.decode import Decode, Decoders
from anycloud_common.rest.encode import Encode, Encoders
from anycloud_common.rest.generated import Generated
from anycloud_common.rest.patch import Patch


class Codec:
    """Keeps what was compiled: one function per message type and direction, made at first use.

    Compiling is not for several threads at once.
    """

    def __init__(self) -> None:
        generated = Generated(encode.HELPERS | decode.HELPERS)
        self._encoders = Encoders(generated)
        self._decoders = Decoders(generated)

    def encoder(self, message: Descriptor) -> Encode:
        """Message -> JSON value (dicts, lists, numbers, text). The function raises BadResponse for a message that lacks
        what its JSON has to have."""
        return self._encoders.encoder(message)

    def decoder(self, message: Descriptor, skip: frozenset[str] = frozenset()) -> Decode:
        """JSON value -> constructor arguments. The function raises Invalid. Fields in `skip` are no keys."""
        return self._decoders.decoder(message, skip)

    def patcher(self, message: Descriptor, skip: frozenset[str] = frozenset()) -> Patch:
        """JSON object -> constructor arguments and the paths of an update mask. The function raises Invalid."""
        return patch.patcher(message, self._decoders, skip)

    def json(self, message: Message) -> bytes:
        """The message as JSON text."""
        descriptor: Any = message.DESCRIPTOR
        return orjson.dumps(self.encoder(descriptor)(message))
