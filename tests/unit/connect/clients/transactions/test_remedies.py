"""A cluster that refuses a transactional producer: the error says what to do."""

from __future__ import annotations

import pytest

from connect.clients.errors import broker_code, error_from_code
from connect.clients.transactions.remedies import with_transaction_remedy
from connect.errors import DeadlineExceeded


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (53, "grant Write and Describe on the transactional id g-c-0"),
        (31, "grant Write on the transactional id g-c-0, or IdempotentWrite"),
        (50, "transaction.timeout.ms, which is 60000, or raise the brokers' transaction.max"),
    ],
)
def test_what_people_can_do_is_said(code: int, remedy: str) -> None:
    error = error_from_code(code, "Claiming the transactional id (g-c-0)", "Refused.")
    told = with_transaction_remedy(error, "g-c-0", "60000")
    assert str(told).startswith(str(error).rstrip("."))
    assert remedy in str(told)
    assert broker_code(told) == code
    assert not told.retriable


def test_where_nobody_answers_it_is_said_where_to_look() -> None:
    told = with_transaction_remedy(DeadlineExceeded("Claiming timed out"), "g-c-0", "60000")
    assert "__transaction_state" in str(told)
    assert "transaction.state.log.replication.factor" in str(told)
    assert told.retriable


def test_other_errors_stay_as_they_are() -> None:
    error = error_from_code(15, "Claiming")
    assert with_transaction_remedy(error, "g-c-0", "60000") is error
