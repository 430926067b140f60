"""Notices that brokers refuse the login of a librdkafka client.

librdkafka tells its owner of a refusal and goes on trying. Whatever waits for an answer is told
nothing until its timeout. A refusal may pass, such as that of a token that ended a moment ago, and
librdkafka does not repeat the same one for a while. So a refusal is only suspected until a
connection of our own is refused, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from connect.clients.config.properties import wire_settings
from connect.clients.wire.bootstrap_probe import BootstrapProbe, why_unreachable
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import AuthenticationFailed, ConfigError, ConnectError

__all__ = ["LoginRefusals"]

_log = logging.getLogger(__name__)

_ASK_S = 5.0

_REFUSED = frozenset({confluent_kafka.KafkaError._AUTHENTICATION, confluent_kafka.KafkaError._SSL})


class LoginRefusals:
    """The refusals of one client. Its owner says when something waits, and when it was answered.

    `note` and `answered` are safe from any thread; `step` is for one thread, and `ask` for callers
    that may wait.
    """

    def __init__(self, properties: Mapping[str, str], clock: Clock = SYSTEM_CLOCK) -> None:
        """`properties` are the client's, with Java names."""
        self._properties = properties
        self._clock = clock
        self._suspected = False
        self._probe: BootstrapProbe | None = None

    def librdkafka_config(self) -> dict[str, Any]:
        """Return what the client's config needs so that refusals are noticed."""
        return {"error_cb": self.note}

    def note(self, error: confluent_kafka.KafkaError) -> None:
        """Take an error that the client reports on its own."""
        if error.code() in _REFUSED:
            self._suspected = True

    def answered(self) -> None:
        """Forget the refusals: a broker has answered the client."""
        self._suspected = False

    def step(self, *, waiting: bool) -> AuthenticationFailed | None:
        """Return the refusal once there is one. Does not block: call it often.

        `waiting`: whether anything waits for an answer.
        """
        needed = waiting and self._suspected
        if self._probe is None:
            if not needed:
                return None
            self._probe = self._new_probe()
            if self._probe is None:
                return None
        if not self._probe.step(needed):
            return None
        if self._probe.failure is None:
            self._suspected = False
        return _refusal(self._probe.failure)

    def ask(self) -> AuthenticationFailed | None:
        """Return the refusal if the client met one, and another connection does now."""
        if not self._suspected:
            return None
        try:
            cause = why_unreachable(self._properties, Deadline(_ASK_S, self._clock))
        except ConfigError as error:
            cause = error
        if cause is None:
            self._suspected = False
        return _refusal(cause)

    def _new_probe(self) -> BootstrapProbe | None:
        try:
            settings = wire_settings(self._properties)
        except ConfigError as error:
            # Such as a key store that cannot be read now.
            _log.debug("Whether brokers refuse the login cannot be asked: %s", error)
            self._suspected = False
            return None
        return BootstrapProbe(settings, self._clock, lambda: None)

    def close(self) -> None:
        """End an attempt to connect."""
        if self._probe is not None:
            self._probe.close()


def _refusal(cause: ConnectError | None) -> AuthenticationFailed | None:
    return cause if isinstance(cause, AuthenticationFailed) else None
