"""The loop of connectors and tasks that poll clusters."""

from __future__ import annotations

from collections.abc import Callable

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError
from connect.loop import BackgroundLoop, Backoff, OnError

__all__ = ["STOP_TIMEOUT_S", "cluster_loop"]

STOP_TIMEOUT_S = 2.0
"""How long the owner's `stop` waits for the loop. An unreachable cluster may block the loop's
daemon thread longer; it then ends by itself."""

# Interval of a loop that runs once and then only when woken: a year, which is within the limit of a
# lock's timeout.
_NEVER_S = 365 * 86_400.0

# Backoff between attempts of a failed step. It starts short, because clusters often start together.
_RETRY_FIRST_S, _RETRY_CAP_S = 0.25, 15.0


def cluster_loop(
    name: str,
    step: Callable[[], None],
    interval_s: float | None,
    on_failure: Callable[[Exception], None],
    clock: Clock = SYSTEM_CLOCK,
    on_trouble: Callable[[str | None], None] | None = None,
) -> BackgroundLoop:
    """Create a loop that retries its step after every cluster failure.

    `on_trouble` receives the current problem (`BackgroundLoop`). Only an invalid config ends the
    loop; then `on_failure` is called. `interval_s` None: run once, and again when woken.
    """
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
