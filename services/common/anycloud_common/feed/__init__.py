"""The change feed: how facts come up from one service to those that stand on it."""

from anycloud_common.feed.consumer import FeedConsumer, Mark, Wake
from anycloud_common.feed.servicer import FeedServicer, ListRefs
from anycloud_common.feed.tables import tables

__all__ = ["FeedConsumer", "FeedServicer", "ListRefs", "Mark", "Wake", "tables"]
