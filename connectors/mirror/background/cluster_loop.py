"""The loop of connectors and tasks that poll clusters."""

from __future__ import annotations

from collections.abc import Callable

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError
from connect.loop import BackgroundLoop, Backoff, OnError

__all__ = ["STOP_TIMEOUT_S", "cluster_loop"]

STOP_TIMEOUT_S = 2.0
"""How long an owner's `stop` waits for such a loop. An unreachable cluster may block its thread
longer; the thread then ends by itself, and as a daemon it keeps no process alive."""

# The interval of a loop that runs only once or when woken: a year, within the limit of a lock's
# timeout.
_NEVER_S = 365 * 86_400.0

# Backoff between attempts of a failed step: short first, as clusters often start together.
_RETRY_FIRST_S, _RETRY_CAP_S = 0.25, 15.0


def cluster_loop(
    name: str,
    step: Callable[[], None],
    interval_s: float | None,
    on_failure: Callable[[Exception], None],
    clock: Clock = SYSTEM_CLOCK,
    on_trouble: Callable[[str | None], None] | None = None,
) -> BackgroundLoop:
    """Create a loop whose step is retried after every failure on a cluster; `on_trouble` gets the
    current problem (`BackgroundLoop`). Only a config that can never work ends it, and calls
    `on_failure`. `interval_s` None: run once, and when woken."""
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
