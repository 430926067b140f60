"""Records that a real producer cannot write, because no broker is there."""

from __future__ import annotations

from confluent_kafka import Message, Producer

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirrormaker1.record_copier import RecordCopier, SameRecord

NOBODY: dict[str, str | int] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "linger.ms": 0}
SOON_S = 20.0


class Judge:
    """Notes what the copier tells its owner."""

    def __init__(self) -> None:
        self.refused: list[tuple[TopicPartition, int]] = []
        self.failed: list[ConnectError] = []

    def refuse(self, source: TopicPartition, first: int, _last: int, _reason: str) -> bool:
        self.refused.append((source, first))
        return True


def copier_of(settings: dict[str, str | int], judge: Judge) -> RecordCopier:
    """A copier that has taken records 3 to 5 of the partitions 0 and 1."""
    copier = RecordCopier(Producer(settings), SameRecord(), judge.refuse, judge.failed.append)
    for partition in range(2):
        copier.add(("orders", partition))
        copier.take(
            Message(topic="orders", partition=partition, offset=offset, value=b"v")
            for offset in range(3, 6)
        )
    return copier


def test_a_target_that_does_not_answer_is_a_passing_reason_and_told_once() -> None:
    judge = Judge()
    copier = copier_of({**NOBODY, "message.timeout.ms": 200}, judge)
    assert copier.flush(Deadline(SOON_S))
    assert [error.retriable for error in judge.failed] == [True]
    assert judge.refused == [], "no record is skipped"
    assert copier.rewind_s
    assert copier.full
    assert copier.rewind() == {("orders", 0): 3, ("orders", 1): 3}
    assert copier.rewind_s is None
    assert not copier.full


def test_what_is_purged_for_the_next_owner_is_consumed_anew_by_those_that_stay() -> None:
    judge = Judge()
    copier = copier_of(NOBODY, judge)
    copier.purge()
    copier.remove([("orders", 1)])
    assert copier.flush(Deadline(SOON_S))
    assert (judge.failed, judge.refused) == ([], [])
    assert copier.rewind_s == 0.0
    assert copier.rewind() == {("orders", 0): 3}
