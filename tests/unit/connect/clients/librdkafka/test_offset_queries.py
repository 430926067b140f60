"""A query for offsets waits for the leader it was made for, so it has a part of the time only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from connect.clients.librdkafka import admin as module
from connect.clients.librdkafka.admin import Admin
from connect.errors import DeadlineExceeded
from connect.topic_partition import TopicPartition

KEY = ("topic", 0)


class LeaderAway(Admin):
    """So many queries are not answered; librdkafka then asks another broker."""

    unanswered = 0
    looked_up = 0
    waited: list[float]

    def _listed_once(self, query: Any, which: str, timeout: float) -> dict[TopicPartition, Any]:
        self.waited.append(timeout)
        if len(self.waited) <= self.unanswered:
            raise DeadlineExceeded(f"no answer within {timeout} s")
        return {KEY: confluent_kafka.TopicPartition(*KEY, 7)}

    def _look_up_leaders(self, timeout: float) -> None:
        self.looked_up += 1


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Iterator[LeaderAway]:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    client = LeaderAway({"bootstrap.servers": "127.0.0.1:1"})
    client.waited = []
    yield client
    client.close()


def test_each_query_waits_longer_and_the_leaders_are_looked_up_between(admin: LeaderAway) -> None:
    admin.unanswered = 2
    assert admin.end_offsets([KEY], 30.0) == {KEY: 7}
    assert admin.waited == [0.01, 0.02, 0.04]
    assert admin.looked_up == 2


def test_the_time_that_was_given_is_the_limit(admin: LeaderAway) -> None:
    admin.unanswered = 1_000_000
    with pytest.raises(DeadlineExceeded):
        admin.end_offsets([KEY], 0.005)
    assert max(admin.waited) <= 0.005
