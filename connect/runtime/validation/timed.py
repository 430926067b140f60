"""Validates configs within a request's time limit, because connectors' own code may not return.

A validation runs on a thread of its own. One that does not end in time keeps its thread, and the
request gets an error; other requests are not held up.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from connect.clock import Clock, Deadline
from connect.errors import DeadlineExceeded
from connect.futures import run_into
from connect.log_fields import OwnedThread
from connect.runtime.rest_entities import ConfigInfos
from connect.runtime.stages import Stages
from connect.runtime.thread_dumps import where
from connect.runtime.validation.validator import ConfigValidator

__all__ = ["TimedValidation"]

_log = logging.getLogger(__name__)


class TimedValidation:
    """Safe to call from any thread. The threads are daemons that only a plugin's code keeps."""

    def __init__(self, validator: ConfigValidator, clock: Clock) -> None:
        self._validator = validator
        self._clock = clock

    def validate(self, config: Mapping[str, str | None], deadline: Deadline) -> ConfigInfos:
        """Validate a connector's config. Raises `DeadlineExceeded` with Java's text."""
        answer: Future[ConfigInfos] = Future()
        stages = Stages(self._clock)
        name = config.get("name") or config.get("connector.class") or ""
        thread = OwnedThread(
            lambda: run_into(answer, lambda: self._validator.validate(config)),
            f"validation-{name}",
        )
        with stages.during(f"performing multi-property validation for the connector {name}"):
            thread.start()
            try:
                return answer.result(deadline.remaining())
            except FutureTimeout as error:
                if answer.done():
                    raise
                late = f"Request timed out. {stages.summary()}"
                _log.error("%s Its stack:\n%s", late, where(thread))
                raise DeadlineExceeded(late) from error
