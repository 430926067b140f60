"""The offset commits of a sink task, identified by sequence number, and the futures that wait for
them.

Asynchronous commits answer late, or after a newer one was begun: such an answer must not undo what
is known since. Pure bookkeeping, on the task's thread; times are seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from connect.errors import ConnectError, DeadlineExceeded
from connect.plugin import TopicPartition

__all__ = ["SinkCommits"]

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Sent:
    number: int
    offsets: Offsets


class SinkCommits:
    """Numbers commits from 1 on. Only the newest counts; at most one is waited for."""

    def __init__(
        self,
        timeout_s: float,
        on_ended: Callable[[float, ConnectError | None], None] = lambda *_: None,
    ) -> None:
        """`on_ended` is told of each newest commit when it was begun and how it ended."""
        self._timeout_s = timeout_s
        self._on_ended = on_ended
        self._begun_s = 0.0
        self._unanswered: list[_Sent] = []
        self._since_s: float | None = None
        self._requests: list[Future[None]] = []
        self._answering: list[Future[None]] = []
        self.number = 0
        """Of the newest commit (`offset-commit-seq-no`)."""
        self.completed = 0
        """How many went well (`offset-commit-completion-total`)."""
        self.skipped = 0
        """Answers that came after a newer commit was begun (`offset-commit-skip-total`)."""

    def counts(self) -> tuple[int, int, int]:
        """(number, completed, skipped); from any thread."""
        return self.number, self.completed, self.skipped

    @property
    def under_way(self) -> bool:
        """Whether the newest commit has neither ended nor taken too long."""
        return self._since_s is not None

    @property
    def requested(self) -> bool:
        """Whether somebody waits for a commit that is still to be begun."""
        return bool(self._requests)

    def request(self) -> Future[None]:
        """Done when the next commit has ended, with its error."""
        done: Future[None] = Future()
        self._requests.append(done)
        return done

    def begin(self, now_s: float) -> None:
        """A newer commit: what earlier ones answer from now on is old, and who waited for them
        waits for this one."""
        self.number += 1
        self._begun_s = self._since_s = now_s
        self._answering += self._requests
        self._requests = []

    def sent(self, offsets: Offsets) -> None:
        """The newest commit is on its way; `answered` will be told the same offsets."""
        self._unanswered.append(_Sent(self.number, dict(offsets)))

    def answered(self, offsets: Offsets, error: ConnectError | None) -> bool:
        """A commit of these offsets was answered. False: a newer one was begun since.

        The client answers each commit once, mostly in order, and does not say which it means; of
        two with the same offsets either may be meant.
        """
        if not self._unanswered:
            return False
        sent = next((s for s in self._unanswered if s.offsets == offsets), self._unanswered[0])
        self._unanswered.remove(sent)
        if sent.number != self.number:
            self.skipped += 1
            return False
        self.ended(error)
        return True

    def ended(self, error: ConnectError | None) -> None:
        """The newest commit has come to its end; also one that had nothing to send."""
        self._since_s = None
        if error is None:
            self.completed += 1
        self._on_ended(self._begun_s, error)
        self._answer(error)

    def timed_out(self, now_s: float) -> bool:
        """Whether the newest commit takes too long from now on: it is not waited for any more. Its
        answer still counts until a newer one is begun."""
        if self._since_s is None or now_s - self._since_s < self._timeout_s:
            return False
        self._since_s = None
        self._answer(DeadlineExceeded(f"Committing offsets took longer than {self._timeout_s:g} s"))
        return True

    def abandon(self, error: ConnectError) -> None:
        """Fail all waiting commits with the error: no more commits follow."""
        self._answering += self._requests
        self._requests = []
        self._answer(error)

    def _answer(self, error: ConnectError | None) -> None:
        answering, self._answering = self._answering, []
        for waiting in answering:
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)
