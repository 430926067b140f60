"""One run of the task on one simulated worker: what `TaskHost` and, for every other worker, the
engine thread do, without their threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.runtime.tasks.task import WorkerTask
from tests.simulation.mirror.session import Finding, Session
from tests.simulation.mirror.timeline import Life, Timeline, WorkerClock, WorkerKilled

__all__ = ["SimulatedWorker"]

_FINAL_S = 5.0
"""As `task.shutdown.graceful.timeout.ms`."""


class SimulatedWorker:
    """Owns one `WorkerTask`. `alive` until it was stopped, failed or killed."""

    def __init__(
        self,
        session: Session,
        timeline: Timeline,
        life: Life,
        clock: WorkerClock,
        task: WorkerTask,
        open_parts: Collection[Callable[[], None]],
        wait: Callable[[float], bool] | None,
    ) -> None:
        """`wait`: waits for the task at most so many seconds, as the engine thread to which its
        turns are lent; None: they are its own thread's. `open_parts`: called when the process is
        gone, so that its connections break and what it wrote arrives in part."""
        self.session = session
        self.name = session.name
        self.life = life
        self.clock = clock
        self.task = task
        self.alive = True
        self.frozen = False
        self.paused = False
        self.failure: Exception | None = None
        self.finished = False
        """It ended after its final offsets were stored."""
        self._timeline = timeline
        self._open_parts = open_parts
        self._wait = wait
        self._due_at = -math.inf
        self._started = False

    def start(self) -> None:
        if self._run("start", self.task.start):
            self._started = True

    def turn(self) -> None:
        if self.alive and not self.frozen:
            if self._wait is None:
                self._turn(self.task.turn)
            else:
                self._lent_turn(self._wait)

    def _turn(self, turn: Callable[[], object]) -> None:
        read_to = self.session.read_to
        if self._run("turn", turn):
            self.session.learn(read_to)

    def _lent_turn(self, wait: Callable[[float], bool]) -> None:
        now = self._timeline.time.monotonic
        if wait(max(0.0, self._due_at - now())) or self._due_at <= now():

            def turn() -> None:
                self._due_at = now() + self.task.turn_now()

            self._turn(turn)

    def set_paused(self, *, paused: bool) -> None:
        self.paused = paused
        self._run("pause" if paused else "resume", self.task.pause if paused else self.task.resume)

    def reconfigure(self, config: dict[str, str]) -> None:
        """In place; under exactly-once, where workers do not do that, it is stopped for it."""
        if self.session.exactly_once:
            self.stop()
            return

        def offer() -> None:
            assert self.task.reconfigure(config), "the task was to be changed in place"

        self._run("reconfigure", offer)

    def commit_soon(self) -> None:
        self._run("commit", self.task.commit_soon)

    def stop(self) -> None:
        """A graceful stop."""
        self._timeline.note(f"{self.name} is stopped")
        self.frozen = self.session.frozen = False
        if self._run("stopping", self.task.stopping):
            self._end(failed=False)

    def disown(self) -> None:
        """Its group gave the task to somebody else: it ends, and stores nothing."""
        self._timeline.note(f"{self.name} learns that it lost its task")
        self.frozen = self.session.frozen = False
        if self._run("stopping", self.task.stopping):
            self._close()

    def kill(self) -> None:
        """The process is gone."""
        if self.alive:
            self.alive = False
            self.session.killed = True
            self._timeline.note(f"{self.name} is killed")
            self._cut_off()

    def _run(self, what: str, step: Callable[[], object]) -> bool:
        """Whether it went well, and the worker still lives."""
        if not self.alive:
            return False
        # After anything else the turns are lent again, and the first is due at once.
        self._due_at = -math.inf
        life = self.life
        life.running = True
        try:
            step()
        except WorkerKilled:
            life.running = False
            self.kill()
            return False
        except Exception as error:
            life.running = False
            if not isinstance(error, ConnectError | MemoryError):
                raise Finding(f"{self.name} failed in {what}: {error!r}") from error
            self.failure = error
            self.session.failed = True
            self._timeline.note(f"{self.name} failed in {what}: {type(error).__name__}: {error}")
            self._end(failed=True)
            return False
        finally:
            life.running = False
        return self.alive

    def _end(self, *, failed: bool) -> None:
        if self._started:

            def finish() -> None:
                self.finished = self.task.finish(Deadline(_FINAL_S, self.clock), failed=failed)

            self._quietly("finish", finish)
        self._close()

    def _close(self) -> None:
        if self.alive:
            self._quietly("close", self.task.close)
            if self.alive:
                self.alive = False
                how = "its final offsets stored" if self.finished else "no final offsets"
                self._timeline.note(f"{self.name} ended, {how}")
                self._cut_off()

    def _quietly(self, what: str, step: Callable[[], object]) -> None:
        """As TaskHost: an error of the end is logged."""
        self.life.running = True
        try:
            step()
        except WorkerKilled:
            self.life.running = False
            self.kill()
        except Exception as error:  # noqa: BLE001 - as in TaskHost
            self._timeline.note(f"{self.name}: {what} failed: {type(error).__name__}: {error}")
        finally:
            self.life.running = False

    def _cut_off(self) -> None:
        for close in self._open_parts:
            close()
