"""One user's lease of the process's Spark session, and what sessions offer and users need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.spark.session_state import SparkState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors.spark.session import SharedSession

__all__ = ["SessionNeeds", "SessionSettings", "SparkLease"]


@dataclass(frozen=True, slots=True)
class SessionNeeds:
    """The needs of a user. `kafka`: Spark's Kafka source; `frames`: the packages of Python data
    sources, also on executors; `background`: the lowest CPU priority is enough."""

    kafka: bool
    frames: bool
    background: bool


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings with which a session is started. `given`: the users' `spark.*`; `kafka` and
    `frames` as in `SessionNeeds`; `background`: at the lowest CPU priority."""

    given: dict[str, str]
    kafka: bool
    frames: bool
    background: bool

    def lacks(self, needs: SessionNeeds) -> str:
        """Return what the user needs and this session lacks; empty if nothing."""
        if needs.kafka and not self.kafka:
            return "Spark's Kafka source"
        if needs.frames and not self.frames:
            return "what Python data sources need"
        if self.background and not needs.background:
            return "a normal CPU priority"
        return ""


class SparkLease:
    """One user's lease of the session, for any thread. The session exists, or is being started,
    while a lease wants it, and is not restarted while a user holds it."""

    def __init__(
        self,
        shared: SharedSession,
        on_ready: Callable[[], None],
        on_failed: Callable[[], None],
        needs: SessionNeeds,
    ) -> None:
        self._shared = shared
        self.on_ready = on_ready
        self.on_failed = on_failed
        self.needs = needs
        self.wanting = False
        """Whether the user requests the session. Belongs to the shared session, whose lock guards
        it."""
        self.holding = False
        """Whether the user may be using the session. Belongs to the shared session, too."""

    def want(self, *, start: bool = True) -> SparkSession | None:
        """Request the session until `rest` or `release`.

        Returns None if it does not exist yet, or has to be restarted first because a user needs
        what it lacks; `on_ready` is called once it can be used. With `start=False`, it is requested
        only if it can be used now.
        """
        return self._shared.want(self, start)

    def rest(self) -> None:
        """End the request. The session stops after some idle time; `want` starts it again."""
        self._shared.rest(self)

    def give_back(self) -> None:
        """Let the session be restarted for others, without an end of the request. Call it where no
        query of yours runs; call `want` before the next."""
        self._shared.give_back(self)

    @property
    def session(self) -> SparkSession | None:
        """Return the session; None if there is none that this user can use."""
        return self._shared.session_of(self)

    @property
    def state(self) -> SparkState:
        """Return the session's state; BUSY if others use it, and it lacks what this user needs."""
        return self._shared.state_of(self)

    @property
    def asked_back(self) -> bool:
        """Whether another user waits for a restart: end what runs, then `give_back`."""
        return self._shared.is_asked_back()

    def look(self) -> None:
        """Check now whether the session still exists. Call it after a failure."""
        self._shared.look()

    def release(self) -> None:
        """End the lease; implies `rest`."""
        self._shared.release(self)
