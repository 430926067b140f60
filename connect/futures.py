"""Futures that the project's own code completes: with a result, an error, or what a step gives."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["CommitRequests", "done_future", "failed_future", "run_into", "settle"]

T = TypeVar("T")


def done_future(result: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(result)
    return future


def failed_future(error: BaseException) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(error)
    return future


def settle(future: Future[None], error: BaseException | None) -> None:
    """Complete the future, or fail it if there is an error."""
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


def run_into(future: Future[T], step: Callable[[], T]) -> None:
    """Run `step`. The future gets its result or error."""
    try:
        future.set_result(step())
    except Exception as error:  # noqa: BLE001 - the future carries it to its owner
        future.set_exception(error)


class CommitRequests:
    """Requests to commit, and their futures. Each waits for a commit to begin, then for its end.
    Belongs to one thread."""

    def __init__(self) -> None:
        self._waiting: list[Future[None]] = []
        self._begun: list[Future[None]] = []

    def __bool__(self) -> bool:
        """Whether a request waits for a commit to begin."""
        return bool(self._waiting)

    def add(self) -> Future[None]:
        done: Future[None] = Future()
        self._waiting.append(done)
        return done

    def begin(self) -> None:
        """Note that the commit that begins covers all requests."""
        self._begun += self._waiting
        self._waiting = []

    def end(self, error: BaseException | None = None) -> None:
        """Complete the requests whose commit has begun, or fail them with the error."""
        ended, self._begun = self._begun, []
        for waiting in ended:
            settle(waiting, error)

    def end_all(self, error: BaseException | None = None) -> None:
        """Complete or fail all requests."""
        self.begin()
        self.end(error)

    def repeat(self) -> None:
        """Let the requests whose commit has begun wait for the next one."""
        self._waiting = self._begun + self._waiting
        self._begun = []
