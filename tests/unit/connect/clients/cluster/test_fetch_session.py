"""A fetch session names only what changed, and everything again when it is lost (KIP-227)."""

from __future__ import annotations

from uuid import UUID

from connect.clients.cluster.fetch_session import FetchSession
from connect.protocol.messages import FetchPartition

A, B = ("t", 0), ("t", 1)


def at(offset: int) -> FetchPartition:
    return FetchPartition(offset, 0, 1000)


def established(*keys: tuple[str, int]) -> FetchSession:
    session = FetchSession()
    for key in keys:
        session.want(key, at(0))
    session.next_request()
    session.accepted(9)
    return session


def test_the_first_request_is_full_and_the_next_says_only_what_changed() -> None:
    session = FetchSession()
    session.want(A, at(0))
    session.want(B, at(5))

    first = session.next_request()
    assert (first.session_id, first.epoch) == (0, 0)
    assert dict(first.partitions) == {A: at(0), B: at(5)}

    session.accepted(9)
    session.want(A, at(10))
    second = session.next_request()
    assert (second.session_id, second.epoch) == (9, 1)
    assert dict(second.partitions) == {A: at(10)}

    session.accepted(9)
    assert session.next_request().epoch == 2


def test_an_idle_session_sends_no_partitions() -> None:
    session = established(A, B)
    request = session.next_request()
    assert not request.partitions
    assert not request.forgotten


def test_a_dropped_partition_is_forgotten_once() -> None:
    session = established(A, B)
    session.drop(A)
    assert session.next_request().forgotten == frozenset({A})
    session.accepted(9)
    assert session.next_request().forgotten == frozenset()
    assert session.requested_offset(A) is None
    assert session.requested_offset(B) == 0


def test_a_topic_with_another_id_replaces_the_one_before_in_the_session() -> None:
    """The broker has both by their IDs, but only one by its name."""
    old, new = UUID(int=1), UUID(int=2)
    session = FetchSession()
    session.want(A, FetchPartition(7, 0, 1000, topic_id=old))
    session.want(B, FetchPartition(7, 0, 1000, topic_id=old))
    session.next_request()
    session.accepted(9)
    session.want(A, FetchPartition(0, 0, 1000, topic_id=new))
    session.drop(B)
    request = session.next_request()
    assert sorted(request.forgotten_ids) == [(0, old), (1, old)]
    assert request.forgotten == frozenset({B})
    assert session.names == {old.bytes: "t", new.bytes: "t"}


def test_topics_are_named_by_their_ids_once_all_are_known() -> None:
    session = FetchSession()
    session.want(A, at(0))
    session.want(B, FetchPartition(0, 0, 1000, topic_id=UUID(int=1)))
    assert not session.has_ids
    session.drop(A)
    assert session.has_ids
    session.want(A, at(0))
    session.want(A, FetchPartition(0, 0, 1000, topic_id=UUID(int=1)))
    assert session.has_ids


def test_a_partition_wanted_again_before_the_request_is_not_forgotten() -> None:
    session = established(A)
    session.drop(A)
    session.want(A, at(3))
    request = session.next_request()
    assert dict(request.partitions) == {A: at(3)}
    assert not request.forgotten


def test_a_lost_session_starts_over_with_everything() -> None:
    session = established(A, B)
    session.drop(B)
    session.reset()
    request = session.next_request()
    assert (request.session_id, request.epoch) == (0, 0)
    assert dict(request.partitions) == {A: at(0)}


def test_a_broker_without_room_for_sessions_gets_full_requests() -> None:
    session = FetchSession()
    session.want(A, at(0))
    session.next_request()
    session.accepted(0)
    request = session.next_request()
    assert (request.session_id, request.epoch, dict(request.partitions)) == (0, 0, {A: at(0)})


def test_without_a_session_who_was_served_comes_after_who_was_not() -> None:
    session = FetchSession()
    for key in (A, B):
        session.want(key, at(0))
    session.next_request()
    session.accepted(0)
    session.want(A, at(10))
    assert list(session.next_request().partitions) == [B, A]


def test_it_is_empty_when_everything_was_dropped() -> None:
    session = established(A)
    assert not session.empty
    session.drop(A)
    assert session.empty


def test_the_smallest_request_is_that_of_the_partitions_in_the_next_fetch() -> None:
    session = established(A, B)
    assert session.smallest_request() == 1000
    session.want(B, FetchPartition(1, 0, 300))
    assert session.smallest_request() == 300
    session.drop(B)
    assert session.smallest_request() == 1000
    session.drop(A)
    assert session.smallest_request() == 0
