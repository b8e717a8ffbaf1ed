"""The ledger's reconciler: one pass over a resource at a time, from its row to the outside and back."""

from anycloud_cluster.reconcile.ledger.accounts import Accounts
from anycloud_cluster.reconcile.ledger.reconciler import LedgerReconciler
from anycloud_cluster.reconcile.ledger.worlds import Worlds

__all__ = ["Accounts", "LedgerReconciler", "Worlds"]
