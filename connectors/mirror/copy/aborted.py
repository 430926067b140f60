"""The copier's name for `connect.protocol.aborted_transactions`."""

from __future__ import annotations

from connect.protocol.aborted_transactions import AbortedTransactions

__all__ = ["AbortedTransactions"]
