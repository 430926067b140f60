"""The offset commits of a sink task by sequence number, and the futures that wait for them.

A response to an asynchronous commit may arrive late, after a newer commit was started. It must not
undo newer state. Pure bookkeeping on the task's thread; times are seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from connect.errors import ConnectError, DeadlineExceeded
from connect.futures import CommitRequests
from connect.plugin import TopicPartition

__all__ = ["SinkCommits"]

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Sent:
    number: int
    offsets: Offsets


class SinkCommits:
    """Numbers commits from 1 on. Only the newest counts, and at most one is awaited."""

    def __init__(
        self,
        timeout_s: float,
        on_ended: Callable[[float, ConnectError | None], None] = lambda *_: None,
    ) -> None:
        """Call `on_ended` with the start time and result of each newest commit."""
        self._timeout_s = timeout_s
        self._on_ended = on_ended
        self._begun_s = 0.0
        self._unanswered: list[_Sent] = []
        self._since_s: float | None = None
        self._requests = CommitRequests()
        self.number = 0
        """The sequence number of the newest commit (`offset-commit-seq-no`)."""
        self.completed = 0
        """The number of successful commits (`offset-commit-completion-total`)."""
        self.skipped = 0
        """The number of responses after a newer commit was started (`offset-commit-skip-total`)."""

    def counts(self) -> tuple[int, int, int]:
        """Return (number, completed, skipped). Thread-safe."""
        return self.number, self.completed, self.skipped

    @property
    def under_way(self) -> bool:
        """Whether the newest commit has neither ended nor timed out."""
        return self._since_s is not None

    @property
    def requested(self) -> bool:
        """Whether a commit was requested that is not started yet."""
        return bool(self._requests)

    def request(self) -> Future[None]:
        """Request a commit. The future completes with the result of the next commit."""
        return self._requests.add()

    def begin(self, now_s: float) -> None:
        """Start a newer commit. Later responses to earlier commits are stale.

        Futures that waited for earlier commits wait for this one.
        """
        self.number += 1
        self._begun_s = self._since_s = now_s
        self._requests.begin()

    def sent(self, offsets: Offsets) -> None:
        """Record that the newest commit was sent with these offsets; `answered` gets the same
        offsets.
        """
        self._unanswered.append(_Sent(self.number, dict(offsets)))

    def answered(self, offsets: Offsets, error: ConnectError | None) -> bool:
        """Handle the response to a commit of these offsets. Return False if a newer one was
        started.

        The client answers each commit once, mostly in order, without identifying it. For two
        commits with the same offsets, either may be meant.
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
        """End the newest commit, which may have had nothing to send."""
        self._since_s = None
        if error is None:
            self.completed += 1
        self._on_ended(self._begun_s, error)
        self._requests.end(error)

    def timed_out(self, now_s: float) -> bool:
        """Return whether the newest commit has timed out and is not awaited any more.

        Its response still counts until a newer commit is started.
        """
        if self._since_s is None or now_s - self._since_s < self._timeout_s:
            return False
        self._since_s = None
        late = f"Committing offsets took longer than {self._timeout_s:g} s"
        self._requests.end(DeadlineExceeded(late))
        return True

    def abandon(self, error: ConnectError) -> None:
        """Fail all waiting futures with the error, because no commits follow."""
        self._requests.end_all(error)
