"""The loops of connectors and tasks that ask clusters again and again."""

from __future__ import annotations

from collections.abc import Callable

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError
from connect.loop import BackgroundLoop, Backoff, OnError

__all__ = ["STOP_TIMEOUT_S", "cluster_loop"]

STOP_TIMEOUT_S = 2.0
"""How long an owner's `stop` waits for such a loop. An unreachable cluster may hold its thread
longer; it then ends by itself, and being a daemon it keeps no process alive."""

# The interval where a loop runs only once or when woken: a year, within what a wait on a lock can
# take.
_NEVER_S = 365 * 86_400.0

# Waits between tries of a failed step: short first, as clusters often start together.
_RETRY_FIRST_S, _RETRY_CAP_S = 0.25, 15.0


def cluster_loop(
    name: str,
    step: Callable[[], None],
    interval_s: float | None,
    on_failure: Callable[[Exception], None],
    clock: Clock = SYSTEM_CLOCK,
    on_trouble: Callable[[str | None], None] | None = None,
) -> BackgroundLoop:
    """A loop whose step is tried again whatever fails on a cluster; `on_trouble` is told while it
    does (`BackgroundLoop`). Only a config that can never work ends it, and is told to `on_failure`.
    `interval_s` None: once, and when woken."""
    return BackgroundLoop(
        name,
        step,
        interval_s=_NEVER_S if interval_s is None else interval_s,
        backoff=Backoff(_RETRY_FIRST_S, _RETRY_CAP_S),
        classify=lambda error: OnError.END if isinstance(error, ConfigError) else OnError.RETRY,
        on_end=on_failure,
        clock=clock,
        on_trouble=on_trouble,
    )
