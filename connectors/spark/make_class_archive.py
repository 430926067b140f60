"""Makes the archive of the classes that a local driver loads (`class_archive.py`).

It takes 100 MB, and is made only when somebody asks for it.
"""

from __future__ import annotations

import os
import shlex
import uuid
from pathlib import Path

from connectors.spark import arrow, rdd
from connectors.spark.class_archive import MAKE
from connectors.spark.errors import SparkUnavailable
from connectors.spark.program_session import Patience, own_session

__all__ = ["make_class_archive"]

_END_S = 180.0
"""The JVM writes the archive when it ends, which takes seconds."""


def make_class_archive(archive: Path) -> None:
    """Start a local session, run what its first jobs need, and write the archive. Raises
    `SparkUnavailable`, and `OSError` if the directory cannot be written."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f".{uuid.uuid4().hex}.jsa")
    properties = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": shlex.quote(f"{MAKE}{draft}"),
    }
    try:
        with own_session("the class archive", properties, patience=Patience(end=_END_S)) as session:
            rdd.collect(session.sparkContext.parallelize([0, 1], 2).map(str))
            arrow.collect(session.range(2).groupBy("id").count())
        if not draft.is_file():
            raise SparkUnavailable(
                "This Java wrote no archive of classes, as small runtimes without an archive of "
                "their own classes do not: set JAVA_HOME to a complete Java 17 to 23"
            )
        # Whole or not at all, because other sessions may start meanwhile.
        os.replace(draft, archive)
    finally:
        draft.unlink(missing_ok=True)
