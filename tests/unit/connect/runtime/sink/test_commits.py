"""Answers of commits count for the newest commit only, however late they come."""

from __future__ import annotations

from connect.errors import BrokerUnavailable, ConnectError, DeadlineExceeded
from connect.plugin import TopicPartition
from connect.runtime.sink.commits import SinkCommits

A: TopicPartition = ("t", 0)
TIMEOUT_S = 5.0


def begun(*offsets: int) -> SinkCommits:
    """Commits of these offsets of A were sent, one after the other, at 0 s, 1 s ..."""
    commits = SinkCommits(TIMEOUT_S)
    for now, offset in enumerate(offsets):
        commits.begin(now)
        commits.sent({A: offset})
    return commits


def test_the_answer_of_the_newest_commit_counts_and_ends_it() -> None:
    commits = begun(5)
    assert commits.under_way
    assert commits.answered({A: 5}, None)
    assert not commits.under_way
    assert (commits.number, commits.completed, commits.skipped) == (1, 1, 0)


def test_a_late_answer_of_an_older_commit_changes_nothing() -> None:
    commits = begun(5, 9)
    assert not commits.answered({A: 5}, None)
    assert commits.under_way
    assert commits.answered({A: 9}, None)
    assert (commits.completed, commits.skipped) == (1, 1)
    commits = begun(5, 9)
    assert not commits.answered({A: 5}, BrokerUnavailable("of the old one"))
    assert commits.under_way


def test_answers_may_come_in_another_order() -> None:
    commits = begun(5, 9)
    assert commits.answered({A: 9}, None)
    assert not commits.answered({A: 5}, None)
    assert (commits.completed, commits.skipped) == (1, 1)


def test_an_answer_nobody_waits_for_changes_nothing() -> None:
    assert not SinkCommits(TIMEOUT_S).answered({A: 1}, None)


def test_a_commit_without_an_answer_is_given_up_but_its_answer_still_counts() -> None:
    commits = begun(5)
    assert not commits.timed_out(4.9)
    assert commits.timed_out(5.0)
    assert not commits.timed_out(9.0)
    assert not commits.under_way
    assert commits.answered({A: 5}, None)


def test_who_asked_hears_of_the_commit_begun_next() -> None:
    commits = begun(5)
    asked = commits.request()
    assert commits.answered({A: 5}, None)
    assert commits.requested
    assert not asked.done()
    commits.begin(1.0)
    assert not commits.requested
    error = ConnectError("no")
    commits.ended(error)
    assert asked.exception(0) is error


def test_who_waited_for_an_overtaken_commit_hears_of_the_newer_one() -> None:
    commits = SinkCommits(TIMEOUT_S)
    asked = commits.request()
    commits.begin(0.0)
    commits.sent({A: 5})
    commits.begin(1.0)
    commits.sent({A: 9})
    commits.answered({A: 5}, None)
    assert not asked.done()
    commits.answered({A: 9}, None)
    assert asked.result(0) is None


def test_who_waits_is_told_of_the_timeout_and_of_the_end() -> None:
    commits = SinkCommits(TIMEOUT_S)
    first = commits.request()
    commits.begin(0.0)
    assert commits.timed_out(6.0)
    assert isinstance(first.exception(0), DeadlineExceeded)
    second = commits.request()
    error = ConnectError("the task has ended")
    commits.abandon(error)
    assert second.exception(0) is error
