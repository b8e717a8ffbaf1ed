"""What HTTP callers are told beside a page of a list, in headers: its body has no room for it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from google.protobuf.descriptor import FieldDescriptor

from anycloud_common.rest import rules
from anycloud_common.rest.route import Route

TOTAL: Final = "anycloud-total-count"
LINK: Final = "link"
_IN_A_URL: Final = "%!$&'()*+,;=:@/?-._~"

Headers = tuple[tuple[str, str], ...]


def beside(content_type: str, headers: Headers) -> str:
    """The content type with headers at its end, from where the gateway's filter takes them: gRPC's own initial metadata
    would cost another operation a call."""
    return content_type + "".join(f"; {name}={value}" for name, value in headers)


def check(route: Route) -> None:
    """Raises ValueError for a method that is `paged` without the fields for it."""
    asked, answered = route.method.input_type.fields_by_name, route.method.output_type.fields_by_name
    wanted = (
        (asked, "limit", FieldDescriptor.TYPE_INT64, True),
        (asked, "cursor", FieldDescriptor.TYPE_STRING, True),
        (answered, "total_count", FieldDescriptor.TYPE_INT64, False),
        (answered, "next_cursor", FieldDescriptor.TYPE_STRING, True),
    )
    for fields, name, kind, optional in wanted:
        field = fields.get(name)
        if field is None or field.type != kind or rules.is_optional(field) != optional:
            raise ValueError(f"{route.method.full_name}: a paged method needs a proper field {name}")
    if not route.response_body:
        raise ValueError(f"{route.method.full_name}: a paged method has a response_body")


def headers(message: Any, url: str) -> Headers:
    """`url` is the request's path and query. The link is relative to the host, which proxies may have changed."""
    total = (TOTAL, str(message.total_count))
    if not message.HasField("next_cursor"):
        return (total,)
    path, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and part.partition("=")[0] != "cursor"]
    kept.append(f"cursor={quote(message.next_cursor, safe='')}")
    following = quote(f"{path}?{'&'.join(kept)}", safe=_IN_A_URL)
    return (total, (LINK, f'<{following}>; rel="next"'))
