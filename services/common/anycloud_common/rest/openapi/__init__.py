"""The OpenAPI document of all HTTP routes, from the same descriptors and options as the codec."""

from anycloud_common.rest.openapi.document import document

__all__ = ["document"]
