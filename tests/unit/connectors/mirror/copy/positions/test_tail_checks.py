"""After a crash, records that are on the target beyond the stored offset are passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from connect.errors import BrokerUnavailable
from connectors.mirror.copy.context import CopyListener, TailCompared
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.positions.tail_checks import (
    FoundTail,
    TailChecks,
    TailQuestion,
)
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop
from tests.unit.connectors.mirror.copy.contexts import posted


@dataclass(frozen=True)
class Found:
    position: int
    spans: Sequence[tuple[int, int, int]]
    epochs: tuple[tuple[int, int], ...] = ()


class Comparing(SteppedLoop):
    def __init__(self) -> None:
        self.found: list[tuple[Sequence[OffsetRun], int]] = []
        super().__init__(
            listener=CopyListener(
                acked=lambda _, runs, base: self.found.append((runs, base)),
                found=lambda _, first, records: self.passed.append((first, records)),
            )
        )
        self.questions: list[tuple[TailQuestion, Future[FoundTail]]] = []
        self.passed: list[tuple[int, int]] = []
        self.checks = TailChecks(self.context, self)

    @property
    def done(self) -> list[PartitionCopy]:
        return [event.partition for event in posted(self.context, TailCompared)]

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        self.questions.append((question, Future()))
        return self.questions[-1][1]

    def stored(self, position: int, target_end: int, facts_at: int | None = None) -> PartitionCopy:
        """A partition as a start finds it; `facts_at`: the position that the facts are of."""
        made = self.partition(0, position)
        made.started()
        at = position if facts_at is None else facts_at
        anchors = ((90, 900), (100, 910), (at, target_end))
        made.learn(LogIdentity(position, at, target_end, None, None, ((3, 0),), anchors))
        return made


@pytest.fixture
def comparing() -> Iterator[Comparing]:
    made = Comparing()
    yield made
    made.loop.close()


def test_nothing_is_compared_where_the_target_ends_as_stored(comparing: Comparing) -> None:
    assert not comparing.checks.look(comparing.stored(100, 910), 910)
    assert comparing.questions == []


def test_equal_records_are_told_and_passed_over(comparing: Comparing) -> None:
    partition = comparing.stored(100, 910)
    assert comparing.checks.look(partition, 950)
    question, answer = comparing.questions[0]
    assert question == TailQuestion(("topic", 0), ("copy", 0), 100, 910, 950)
    assert (partition.held_back, partition.send_held) == (True, True)
    answer.set_result(Found(141, [(100, 910, 30), (131, 940, 10)], ((4, 120),)))
    comparing.turn()
    assert comparing.found == [(((100, 30),), 910), (((131, 10),), 940)]
    assert comparing.passed == [(100, 40)]
    assert (partition.position, partition.acked_position, partition.target_end) == (141, 141, 950)
    assert partition.epochs.before(141) == 4
    assert partition.metrics.read()["already-copied-record-count"] == 40
    assert not partition.held_back
    assert comparing.done == [partition]


def test_records_before_the_stored_offset_are_only_compared(comparing: Comparing) -> None:
    """The facts were written, and then the commit of their offset failed."""
    partition = comparing.stored(100, 950, facts_at=140)
    assert comparing.checks.look(partition, 960)
    assert comparing.questions[0][0] == TailQuestion(("topic", 0), ("copy", 0), 100, 910, 960)
    partition.tail_start = None
    comparing.questions[0][1].set_result(Found(150, [(90, 900, 60)]))
    comparing.turn()
    assert comparing.found == [(((100, 50),), 910)]


def test_from_the_first_difference_on_it_is_copied(comparing: Comparing) -> None:
    partition = comparing.stored(100, 910)
    comparing.checks.look(partition, 950)
    comparing.questions[0][1].set_result(Found(100, []))
    comparing.turn()
    assert (partition.position, comparing.found, comparing.passed) == (100, [], [])
    assert partition.target_end == 950, "the next batch lands behind the other records"


@pytest.mark.parametrize("error", [BrokerUnavailable("gone"), TimeoutError(), None])
def test_a_lookup_that_fails_or_takes_too_long_is_given_up(
    comparing: Comparing, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    late = error is None
    partition = comparing.stored(100, 910)
    comparing.checks.look(partition, 950)
    if late:
        comparing.turn(31.0)
    else:
        comparing.questions[0][1].set_exception(error)
        comparing.turn()
    assert comparing.done == [partition]
    assert not partition.held_back
    assert partition.position == 100
    assert "may be copied again" in caplog.text
    assert not late or comparing.questions[0][1].cancelled()
    assert comparing.found == []


def test_a_partition_that_was_moved_before_the_end_is_known_is_not_compared(
    comparing: Comparing,
) -> None:
    partition = comparing.stored(100, 910)
    partition.relocate(0)
    assert not comparing.checks.look(partition, 911)


def test_a_partition_that_was_moved_meanwhile_takes_nothing(comparing: Comparing) -> None:
    """Its answer is about another place, perhaps about another log."""
    partition = comparing.stored(100, 910)
    comparing.checks.look(partition, 911)
    partition.relocate(40)
    comparing.questions[0][1].set_result(Found(100, []))
    comparing.turn()
    assert (partition.position, partition.held_back) == (40, False)


def test_a_partition_that_left_takes_nothing(comparing: Comparing) -> None:
    partition = comparing.stored(100, 910)
    comparing.checks.look(partition, 950)
    partition.leaving = True
    comparing.questions[0][1].set_result(Found(150, [(100, 910, 50)]))
    comparing.turn()
    assert comparing.found == []


def test_a_target_that_grew_beyond_all_measure_is_not_compared(comparing: Comparing) -> None:
    assert not comparing.checks.look(comparing.stored(100, 910), 10**9)


def test_facts_without_a_target_offset_start_no_comparison() -> None:
    facts = LogIdentity(100, 100, -1, None, None, (), ())
    assert facts.reached(100) is None
