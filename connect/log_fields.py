"""Log fields of threads, such as flow, connector and task, which say for what a thread works. The
owner of a thread sets them once. An `OwnedThread` has the fields of its creator, so that the
helpers of a task need no fields of their own. An `OwnedPool` runs each call with the fields of the
thread that submitted it. Threads that several connectors share are plain threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import ParamSpec, TypeVar

__all__ = [
    "OwnedPool",
    "OwnedThread",
    "add_log_fields",
    "log_fields",
    "with_log_fields",
    "without_log_fields",
]

P = ParamSpec("P")
T = TypeVar("T")

_FIELDS: ContextVar[Mapping[str, str | int]] = ContextVar("log_fields")
_NONE: Mapping[str, str | int] = {}


def log_fields() -> Mapping[str, str | int]:
    """Return the fields of the current thread."""
    return _FIELDS.get(_NONE)


def add_log_fields(**fields: str | int) -> None:
    """Add fields to those of the current thread, until it ends."""
    _FIELDS.set({**log_fields(), **fields})


@contextmanager
def with_log_fields(**fields: str | int) -> Iterator[None]:
    """Add fields while the block runs, also to the threads that it creates."""
    before = _FIELDS.set({**log_fields(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(before)


@contextmanager
def without_log_fields() -> Iterator[None]:
    """Have no fields while the block runs: for what the whole process shares."""
    before = _FIELDS.set(_NONE)
    try:
        yield
    finally:
        _FIELDS.reset(before)


class OwnedThread(threading.Thread):
    """A daemon thread with the fields that its creator has when it creates it."""

    def __init__(
        self, target: Callable[[], object], name: str, context: Context | None = None
    ) -> None:
        """`context`: has the fields; None: those of the current thread."""
        super().__init__(target=target, name=name, daemon=True)
        self._context = copy_context() if context is None else context

    def run(self) -> None:
        self._context.run(super().run)


class OwnedPool(ThreadPoolExecutor):
    """A thread pool that runs each call with the fields of the thread that submits it. Its threads
    outlive a call, so they have no fields of their own."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context = copy_context()

        def call() -> T:
            return context.run(fn, *args, **kwargs)

        return super().submit(call)
