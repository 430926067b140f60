"""Where copying begins is asked of the source, until it answers, and never guessed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import uuid4

import pytest

from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.config.settings import AutoOffsetReset, FetchSettings
from connect.errors import BrokerUnavailable
from connectors.mirror.copy.context import Located
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from tests.support.copier.outgoing import outgoing
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop
from tests.unit.connectors.mirror.copy.contexts import posted


class Starting(SteppedLoop):
    def __init__(self, reset: AutoOffsetReset = "earliest") -> None:
        super().__init__(fetch=FetchSettings(auto_offset_reset=reset))
        self.starts = OffsetReset(self.context)

    @property
    def located(self) -> list[PartitionCopy]:
        return [event.partition for event in posted(self.context, Located)]


@pytest.fixture
def starting() -> Iterator[Starting]:
    made = Starting()
    yield made
    made.loop.close()


def test_all_that_wait_are_asked_for_at_once(starting: Starting) -> None:
    first, second = starting.partition(0), starting.partition(1)
    starting.source.leads(first.source, second.source)
    starting.starts.locate(first)
    starting.starts.locate(second)
    starting.turn()
    assert starting.source.asked == [({first.source, second.source}, EARLIEST)]
    starting.source.answers[0].set_result({first.source: 5, second.source: 0})
    starting.turn()
    assert (first.position, first.acked_position) == (5, 5)
    assert (second.position, second.acked_position) == (0, 0)
    assert starting.located == [first, second]


def test_a_partition_without_a_leader_delays_no_other(starting: Starting) -> None:
    led, leaderless = starting.partition(0), starting.partition(1)
    starting.source.leads(led.source)
    for partition in (led, leaderless):
        starting.starts.locate(partition)
    starting.turn()
    assert starting.source.asked == [({led.source}, EARLIEST)]
    starting.source.answers[0].set_result({led.source: 0})
    starting.turn()
    starting.source.leads(led.source, leaderless.source)
    starting.starts.ask()
    starting.turn()
    assert starting.source.asked[1:] == [({leaderless.source}, EARLIEST)]


def test_errors_are_shown_and_tried_again(starting: Starting) -> None:
    one, other = starting.partition(0), starting.partition(1)
    starting.source.leads(one.source, other.source)
    for partition in (one, other):
        starting.starts.locate(partition)
    starting.turn()
    starting.source.answers[0].set_exception(BrokerUnavailable("all gone"))
    starting.turn()
    assert one.source_error == other.source_error == "all gone"
    starting.turn(2.0)
    starting.source.answers[1].set_result({one.source: 3, other.source: BrokerUnavailable("one")})
    starting.turn()
    assert one.position == 3
    assert one.error is None
    assert other.source_error == "one"
    starting.turn(2.0)
    assert starting.source.asked[2] == ({other.source}, EARLIEST)


def test_the_reset_policy_decides(caplog: pytest.LogCaptureFixture) -> None:
    latest, none = Starting("latest"), Starting("none")
    for made in (latest, none):
        partition = made.partition(0)
        made.source.leads(partition.source)
        made.starts.locate(partition)
        made.turn()
        if made is none:
            assert made.source.asked == []
            assert "auto.offset.reset=none" in str(partition.source_error)
        else:
            assert made.source.asked == [({partition.source}, LATEST)]
        made.loop.close()


@pytest.mark.parametrize(
    ("before", "offset", "lost", "said"),
    [
        (10, 60, 50, "offsets 10 to 59"),
        (100, 40, 0, "ends before offset 100"),
    ],
)
def test_what_the_source_lost_is_reported(
    starting: Starting,
    caplog: pytest.LogCaptureFixture,
    before: int,
    offset: int,
    lost: int,
    said: str,
) -> None:
    partition = starting.partition(0, position=before)
    starting.source.leads(partition.source)
    starting.starts.locate(partition)
    starting.turn()
    with caplog.at_level(logging.ERROR):
        starting.source.answers[0].set_result({partition.source: offset})
        starting.turn()
    assert partition.position == offset
    assert partition.lost_records == lost
    assert said in caplog.text


def test_a_position_is_not_replaced_before_what_was_fetched_is_copied(starting: Starting) -> None:
    partition = starting.partition(0, position=10)
    data = bytearray(100)
    buffer = FetchBuffer(MemoryBudget(1_000), data)
    partition.enqueue(outgoing(data, 10, 10, buffer), 10)
    starting.source.leads(partition.source)
    starting.starts.created_again(partition)
    starting.turn(1.0)
    assert starting.source.asked == []
    partition.queue.clear()
    partition.acked_position = 20
    starting.turn(1.0)
    assert starting.source.asked == [({partition.source}, EARLIEST)]


def test_what_is_known_after_a_loss_does_not_hold_for_what_was_stored_before(
    starting: Starting,
) -> None:
    """Else a start that finds the old position would take the new logs for those it copied."""
    partition = starting.partition(0, position=100)
    partition.stored(100)
    starting.source.leads(partition.source)
    starting.starts.created_again(partition)
    starting.turn()
    starting.source.answers[0].set_result({partition.source: 0})
    starting.turn()
    assert (partition.behind_stored, partition.unstored) == (True, True)
    assert partition.held_back, "a crash would go on at 100"
    partition.storing(0)
    partition.stored(0)
    assert (partition.behind_stored, partition.unstored, partition.held_back) == (False,) * 3
    partition.source_topic_id = uuid4()
    partition.acked_position = 20
    facts = partition.facts(20)
    assert (facts.hold_for(20), facts.hold_for(100)) == (True, False)


def test_a_partition_that_leaves_is_not_moved_any_more(starting: Starting) -> None:
    partition = starting.partition(0)
    starting.source.leads(partition.source)
    starting.starts.locate(partition)
    starting.turn()
    partition.leaving = True
    starting.source.answers[0].set_result({partition.source: 7})
    starting.turn()
    assert partition.acked_position == -1
    assert starting.located == []


@pytest.mark.parametrize(("reset", "told"), [("earliest", True), ("latest", False)])
def test_that_it_was_begun_before_is_told_also_when_it_comes_out_late(
    reset: AutoOffsetReset, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the log's end was chosen, nobody knows what of the records before it is lost."""
    made = Starting(reset)
    partition = made.partition(0, position=60)
    with caplog.at_level(logging.ERROR):
        made.starts.was_begun_before(partition, 10, 40)
    assert ("offsets 10 to 39" in caplog.text) is told
    assert partition.lost_records == (30 if told else 0)
    assert (partition.position, partition.standing) == (60, None)
    made.loop.close()


def test_a_log_that_ends_behind_the_position_by_now_lost_nothing(
    starting: Starting, caplog: pytest.LogCaptureFixture
) -> None:
    """Batches beyond the end were dropped before the truncation was acted on; else the records
    between the position and the end would be passed over."""
    partition = starting.partition(0, position=100)
    partition.fetched_to(150)
    starting.starts.truncated(partition, 120)
    partition.fetch_again()
    starting.turn(1.0)
    assert (partition.position, partition.searching) == (100, False)
    assert starting.located == [partition]
    assert "truncated" not in caplog.text
