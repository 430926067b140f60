"""Translates rounds of checkpoints on Spark that this process hands to it.

What they are translated by is followed here, by `InProcessTranslator`, and goes to Spark with each
round. It also translates while there is no session, and when a query fails: groups follow anyway,
and the log says how. For rounds whose topics Spark reads itself see `topic_translator`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, InProcessTranslator
from connectors.mirror.spark.tables import PAGES, SYNCS, arrow_table
from connectors.mirror.spark.translate.map_breaks import map_breaks
from connectors.mirror.spark.translate.places import places_on_spark
from connectors.spark.errors import SparkJobFailed, SparkUnavailable
from connectors.spark.queries import SparkQueries

__all__ = ["RoundAnswer", "SparkRounds"]

_LOG = logging.getLogger(__name__)


class RoundAnswer(NamedTuple):
    """`on_spark` False: they were found in the process, as Spark could not."""

    places: Sequence[Place | None]
    on_spark: bool


class SparkRounds:
    """See the module. The owner of `local` and `queries` closes them."""

    def __init__(self, local: InProcessTranslator, queries: SparkQueries) -> None:
        self._local = local
        self._queries = queries
        self._said = ""

    def places(self, offsets: Sequence[GroupOffset]) -> RoundAnswer:
        """Where each goes on, by what `local` knows now; a session that is not there comes."""
        partitions = {(each.topic, each.partition) for each in offsets}
        try:
            session = self._queries.session()
            with self._queries.query(session, "Translating group offsets"):
                pages = arrow_table(PAGES, self._local.pages(partitions))
                syncs = arrow_table(SYNCS, self._local.syncs(partitions))
                places = places_on_spark(
                    session,
                    session.createDataFrame(syncs),
                    map_breaks(session.createDataFrame(pages)),
                    offsets,
                )
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
            _LOG.log(level, "%s: wide rounds are translated %s", self._queries.name, where)
