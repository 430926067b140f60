"""Aborted transactions run from their first offset to their marker, producer by producer."""

from __future__ import annotations

from connect.protocol.aborted_transactions import AbortedTransactions
from connect.protocol.batches import TRANSACTIONAL, BatchHeader


def header(first: int, last: int, producer: int, *, transactional: bool = True) -> BatchHeader:
    attributes = TRANSACTIONAL if transactional else 0
    return BatchHeader(0, 100, first, 2, 0, attributes, last - first, 0, producer, last - first + 1)


def test_only_the_aborted_producers_batches_are_dropped() -> None:
    transactions = AbortedTransactions([(1, 10)])
    assert not transactions.aborts(header(0, 9, 1))
    assert transactions.aborts(header(10, 19, 1))
    assert not transactions.aborts(header(20, 29, 2))
    assert transactions.aborts(header(30, 39, 1))
    transactions.ended(header(40, 40, 1))
    assert not transactions.aborts(header(41, 49, 1))


def test_one_producer_may_abort_again_and_again() -> None:
    transactions = AbortedTransactions([(1, 20), (2, 5), (1, 0)])
    assert transactions.aborts(header(0, 4, 1))
    assert transactions.aborts(header(5, 9, 2))
    transactions.ended(header(10, 10, 1))
    assert not transactions.aborts(header(11, 19, 1))
    assert transactions.aborts(header(20, 24, 1))
    assert transactions.aborts(header(25, 29, 2))


def test_batches_without_a_transaction_are_never_dropped() -> None:
    transactions = AbortedTransactions([(1, 0)])
    assert not transactions.aborts(header(0, 9, 1, transactional=False))
