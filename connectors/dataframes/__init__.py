"""The mirror's data for Spark: the data source `kafka_mirror`, and SQL views on top of it.

    from connectors.dataframes import register

    register(spark)
    spark.read.format("kafka_mirror").option("config", "mm2.properties").load("lag").show()

`open_frames` does the same with a Spark session of its own. Tables and columns: `schemas`, and
docs/reference/data-source.md. Topics and clusters are read whenever a frame is evaluated. Topics of
Java's MirrorMaker 2 can be read, too.
"""

from __future__ import annotations

from connectors.dataframes.data_source import FORMAT, KafkaMirrorDataSource
from connectors.dataframes.frames import MirrorFrames, open_frames
from connectors.dataframes.registration import register
from connectors.dataframes.schemas import SCHEMAS

__all__ = [
    "FORMAT",
    "SCHEMAS",
    "KafkaMirrorDataSource",
    "MirrorFrames",
    "open_frames",
    "register",
]
