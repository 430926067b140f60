"""Simulated brokers judge the batches of idempotent producers as Kafka's do."""

from __future__ import annotations

import pytest

from tests.simulation.kafka.log import ABORT, COMMIT, Log
from tests.simulation.kafka.producers import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    Producers,
    Verdict,
)
from tests.simulation.kafka.writing import data_batch

APPEND = (Verdict.APPEND, 0)


def with_batches(producers: Producers, count: int) -> Producers:
    """Batches of two records, from sequence number 0 on, at the offsets 100, 102, ..."""
    for n in range(count):
        assert producers.judge(1, 0, 2 * n, 2) == APPEND
        producers.appended(1, 0, 2 * n, 2, 100 + 2 * n)
    return producers


def test_the_next_sequence_number_is_taken_and_no_other() -> None:
    producers = with_batches(Producers(), 3)
    assert producers.judge(1, 0, 6, 1) == APPEND
    assert producers.judge(1, 0, 7, 1) == (Verdict.REFUSE, OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_one_of_the_last_five_batches_is_a_duplicate_at_its_first_offset() -> None:
    producers = with_batches(Producers(), 6)
    assert producers.judge(1, 0, 2, 2) == (Verdict.DUPLICATE, 102)
    assert producers.judge(1, 0, 10, 2) == (Verdict.DUPLICATE, 110)
    assert producers.judge(1, 0, 10, 1) == (Verdict.REFUSE, OUT_OF_ORDER_SEQUENCE_NUMBER)


@pytest.mark.parametrize(
    ("names", "code"),
    [(False, OUT_OF_ORDER_SEQUENCE_NUMBER), (True, DUPLICATE_SEQUENCE_NUMBER)],
)
def test_an_older_batch_than_those_is_refused(names: bool, code: int) -> None:
    producers = with_batches(Producers(names_old_duplicates=names), 6)
    assert producers.judge(1, 0, 0, 2) == (Verdict.REFUSE, code)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    producers = with_batches(Producers(), 3)
    assert producers.judge(2, 0, 4711, 1) == APPEND
    producers.forget(1)
    assert producers.judge(1, 0, 2, 2) == APPEND


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_with_zero() -> None:
    producers = with_batches(Producers(), 1)
    assert producers.judge(1, 1, 0, 2) == APPEND
    assert producers.judge(1, 1, 2, 2) == (Verdict.REFUSE, OUT_OF_ORDER_SEQUENCE_NUMBER)
    producers.marked(1, 1)
    assert producers.judge(1, 0, 2, 2) == (Verdict.REFUSE, INVALID_PRODUCER_EPOCH)


def test_sequence_numbers_wrap_around() -> None:
    producers = Producers()
    last = (1 << 31) - 1
    producers.appended(1, 0, last, 1, 0)
    assert producers.judge(1, 0, 0, 1) == APPEND
    producers.appended(1, 0, 0, 1, 1)
    assert producers.judge(1, 0, last, 1) == (Verdict.DUPLICATE, 0)


def test_a_log_that_is_cut_off_knows_what_is_left_of_its_producers() -> None:
    log = Log()
    for n in range(3):
        batch = bytearray(data_batch(0, n, 1, producer=7))
        batch[53:57] = n.to_bytes(4, "big")  # the CRC does not matter to the log
        log.append(bytes(batch), 0)
    log.truncate(1)
    assert log.producers.judge(7, 0, 1, 1) == APPEND
    assert log.producers.judge(7, 0, 0, 1) == (Verdict.DUPLICATE, 0)


def test_markers_decide_transactions_and_the_last_stable_offset() -> None:
    log = Log()
    log.append(data_batch(0, 0, 2, producer=7), 0)
    log.append(data_batch(0, 2, 2, producer=8), 0)
    log.high = log.end
    assert log.stable == 0
    log.mark(7, 0, ABORT, 0, 0)
    log.high = log.end
    assert log.stable == 2
    assert log.aborted_between(0, 4) == [(7, 0)]
    log.mark(8, 0, COMMIT, 0, 0)
    log.high = log.end
    assert log.stable == log.end
    assert log.aborted_between(2, 5) == [(7, 0)]
