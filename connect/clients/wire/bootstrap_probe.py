"""Find out why a cluster is unreachable, for clients that retry without reporting the reason.

A probe opens its own connection to the bootstrap brokers, in turn, and returns the typed error of
`open_connection`, for example wrong credentials, an untrusted certificate, the wrong security
protocol, or a refused connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing

from kafka.protocol.metadata import MetadataRequest

from connect.clients.config.properties import bootstrap_servers, wire_settings
from connect.clients.config.settings import WireSettings
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.connection import open_connection
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clients.wire.tcp import resolve
from connect.clock import Clock, Deadline
from connect.errors import BrokerUnavailable, ConfigError, ConnectError

__all__ = ["BootstrapProbe", "need_login", "need_resolvable", "why_unreachable"]

# Long enough for a broker to restart, and to keep the log short.
_FIRST_S = 1.0
_AGAIN_S = 30.0
_ATTEMPT_S = 10.0
_CLOSE_S = 2.0


def why_unreachable(properties: Mapping[str, str], deadline: Deadline) -> ConnectError | None:
    """Return why no bootstrap broker accepts a client with these Java properties, or None if one
    does.

    Raises `ConfigError`.
    """
    failure: ConnectError | None = None
    settings = wire_settings(properties)
    for host, port in settings.bootstrap:
        try:
            with closing(open_connection(host, port, settings, deadline)) as connection:
                # A listener that requires SASL answers ApiVersions of a client without it, too.
                connection.call(MetadataRequest(topics=[]), deadline)
        except ConnectError as error:
            failure = error
            if not error.retriable:
                break
        else:
            return None
    return failure


def need_login(properties: Mapping[str, str], deadline: Deadline) -> None:
    """Raise `AuthenticationFailed` or `ConfigError` if brokers refuse a client with these
    properties permanently. librdkafka would retry until a timeout without reporting it.

    Returns if a broker accepts the client, and if none can be asked.
    """
    cause = why_unreachable(properties, deadline)
    if cause is not None and not cause.retriable:
        raise cause


def need_resolvable(properties: Mapping[str, str], deadline: Deadline) -> None:
    """Raise `ConfigError` if no host in bootstrap.servers can be resolved, as Java's clients do.

    librdkafka would retry without reporting the reason.
    """
    servers = bootstrap_servers(properties)
    failures: list[str] = []
    for host, port in servers:
        try:
            resolve(host, port, deadline, None)
        except BrokerUnavailable as error:
            failures.append(str(error))
        else:
            return
    raise ConfigError(
        "No resolvable bootstrap urls given in bootstrap.servers: " + "; ".join(failures),
        key="bootstrap.servers",
    )


class BootstrapProbe:
    """A background check of the bootstrap brokers, owned by one thread.

    `on_outcome` is called on another thread when `step` has a new result.
    """

    def __init__(
        self, settings: WireSettings, clock: Clock, on_outcome: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._on_outcome = on_outcome
        self._cancellation = Cancellation()
        self._threads = OneShotThreads("bootstrap-probe")
        self._running: Future[None] | None = None
        self._due: float | None = None
        self.failure: ConnectError | None = None
        """Why the last attempt failed; None if it succeeded."""

    def step(self, needed: bool) -> bool:
        """Tell the probe whether the cluster is unreachable. True if an attempt has ended since the
        last call.

        The first attempt starts after one second without the cluster. The next one follows half a
        minute later, or at once after a fatal error.
        """
        if not needed:
            self._running = self._due = self.failure = None
            return False
        now = self._clock.monotonic()
        if self._due is None:
            self._due = now + _FIRST_S
        if self._running is not None and self._running.done():
            self.failure = _failure(self._running)
            self._running = None
            fatal = self.failure is not None and not self.failure.retriable
            self._due = now if fatal else now + _AGAIN_S
            return True
        if self._running is None and now >= self._due:
            self._running = self._threads.run("attempt", self._attempt)
            self._running.add_done_callback(lambda _: self._on_outcome())
        return False

    def pause_s(self) -> float:
        """Return the seconds until the probe has something to do."""
        if self._due is None or self._running is not None:
            return float("inf")
        return max(0.0, self._due - self._clock.monotonic())

    def close(self) -> None:
        self._cancellation.cancel()
        self._threads.stop()
        if not self._threads.join(Deadline(_CLOSE_S)):
            self._cancellation.close()

    def _attempt(self) -> None:
        """Return if some broker accepts the client, raise if none does."""
        failure: ConnectError | None = None
        for host, port in self._settings.bootstrap:
            try:
                open_connection(
                    host, port, self._settings, Deadline(_ATTEMPT_S), self._cancellation
                ).close()
            except ConnectError as error:
                if not error.retriable:
                    raise
                failure = error
            else:
                return
        if failure is not None:
            raise failure


def _failure(ended: Future[None]) -> ConnectError | None:
    error = ended.exception(0)
    if error is None or isinstance(error, ConnectError):
        return error
    raise error
