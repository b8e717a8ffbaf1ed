"""How a service keeps its truth; `docs/store.md` says what holds and why."""

from anycloud_common.store.changes import change_table
from anycloud_common.store.errors import StoreBusy, StoreOpenError, StoreUnavailable
from anycloud_common.store.ownership import owner_table
from anycloud_common.store.store import Store
from anycloud_common.store.writer import Tx

__all__ = ["Store", "StoreBusy", "StoreOpenError", "StoreUnavailable", "Tx", "change_table", "owner_table"]
