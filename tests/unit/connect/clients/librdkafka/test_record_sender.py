"""Closing a producer: nothing of librdkafka stays, whoever still holds the sender."""

from __future__ import annotations

import pytest

from connect.clients.librdkafka.record_sender import RecordSender
from connect.clock import Deadline
from connect.errors import ConnectError
from tests.support.waiting import wait_until

# Nobody listens at port 1, and nothing is sent.
PROPERTIES = {"bootstrap.servers": "127.0.0.1:1", "client.id": "unit"}


@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_closed_sender_lets_its_producer_go(seconds: float) -> None:
    sender = RecordSender(PROPERTIES)
    thread = sender._thread
    sender.close(Deadline(seconds))
    sender.close(Deadline(seconds))

    with pytest.raises(ConnectError, match="closed"):
        sender.send("t", None, b"v", lambda error, metadata: None)
    wait_until(lambda: not thread.is_alive(), 5.0, "the sender's thread ends")


def test_with_time_left_the_thread_has_ended_when_close_returns() -> None:
    sender = RecordSender(PROPERTIES)
    sender.close(Deadline(5.0))
    assert not sender._thread.is_alive()


def test_what_cannot_be_delivered_is_told_before_close_returns() -> None:
    sender = RecordSender(PROPERTIES)
    future = sender.send_future("t", None, b"v", partition=0)
    sender.close(Deadline(0.0))
    assert isinstance(future.exception(0), ConnectError)
