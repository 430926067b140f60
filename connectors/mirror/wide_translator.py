"""Chooses where a round of translations is computed: in this process, or, if it is wide, on Spark.

A Spark query costs about a second of a core however little it is asked, and a session hundreds of
megabytes; here an offset costs some microseconds. So neither PySpark nor a session is touched
before the first round that is worth it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.clock import Deadline
from connectors.mirror.translation import Place
from connectors.mirror.translator import GroupOffset, InProcessTranslator, Translator

__all__ = ["WideTranslator"]


class WideTranslator:
    """A `Translator`; takes over `local`, and closes it."""

    def __init__(
        self, local: InProcessTranslator, name: str, props: Mapping[str, str], min_offsets: int
    ) -> None:
        """`name`: of the task, for the log and for Spark. `props`: those whose `spark.*` configure
        the session. `min_offsets`: from how many on a round is wide."""
        self._local = local
        self._name = name
        self._props = props
        self._min_offsets = min_offsets
        self._spark: Translator | None = None

    def open(self, deadline: Deadline) -> None:
        """As of `InProcessTranslator`."""
        self._local.open(deadline)

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        if len(offsets) < self._min_offsets:
            return self._local.translate(offsets, deadline)
        if self._spark is None:
            from connectors.spark.translator import SparkTranslator

            self._spark = SparkTranslator(self._local, self._name, self._props)
        return self._spark.translate(offsets, deadline)

    def close(self, deadline: Deadline) -> None:
        (self._spark or self._local).close(deadline)
