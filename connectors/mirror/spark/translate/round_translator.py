"""Translates rounds of checkpoints on Spark, with syncs and map from this process.

`InProcessTranslator` follows the topics here, and its state is sent to Spark with each round. It
also translates while there is no session and after a failed query, so that groups are always
translated; the log says where. In `topic_translator` Spark reads the topics itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, InProcessTranslator
from connectors.mirror.spark.tables import PAGES, SYNCS, table_frame
from connectors.mirror.spark.translate.map_breaks import map_breaks
from connectors.mirror.spark.translate.places import places_on_spark
from connectors.spark.errors import SparkJobFailed, SparkUnavailable
from connectors.spark.queries import SparkQueries

__all__ = ["RoundAnswer", "SparkRounds"]

_LOG = logging.getLogger(__name__)


class RoundAnswer(NamedTuple):
    """The result of a round. `on_spark` False: it was translated in the process, because Spark
    could not."""

    places: Sequence[Place | None]
    on_spark: bool


class SparkRounds:
    """Translates on Spark with the state of `local`. The owner of `local` and `queries` closes
    them."""

    def __init__(self, local: InProcessTranslator, queries: SparkQueries) -> None:
        self._local = local
        self._queries = queries
        self._said = ""

    def places(self, offsets: Sequence[GroupOffset]) -> RoundAnswer:
        """Translate the offsets with the current state of `local`. Requests a session if there is
        none."""
        partitions = {(each.topic, each.partition) for each in offsets}
        try:
            session = self._queries.session()
            with self._queries.query(session, "Translating group offsets"):
                pages = table_frame(session, PAGES, self._local.pages(partitions))
                syncs = table_frame(session, SYNCS, self._local.syncs(partitions))
                places = places_on_spark(session, syncs, map_breaks(pages), offsets)
        except SparkUnavailable as error:
            self._say(f"in this process: {error}", logging.INFO)
            return RoundAnswer(self._local.places(offsets), False)
        except SparkJobFailed as error:
            self._say(f"in this process: {error}", logging.WARNING)
            return RoundAnswer(self._local.places(offsets), False)
        self._say("on Spark", logging.INFO)
        return RoundAnswer(places, True)

    def _say(self, where: str, level: int) -> None:
        if where != self._said:
            self._said = where
            _LOG.log(level, "%s: large rounds are translated %s", self._queries.name, where)
