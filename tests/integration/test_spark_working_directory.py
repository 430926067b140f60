"""Spark's Python processes beside a working directory that has packages with familiar names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 150.0

COPY = """
from connectors.spark.program_session import own_session
with own_session("test", {"spark.master": "local[1]"}) as session:
    print(session.sparkContext.parallelize([7], 1).map(lambda number: number + 1).collect())
"""


def test_they_import_nothing_of_it(tmp_path: Path) -> None:
    # Spark runs `python -m pyspark.daemon`, with a local master in the driver's directory.
    trap = tmp_path / "pyspark" / "__init__.py"
    trap.parent.mkdir()
    trap.write_text("raise RuntimeError('run from the working directory')\n")
    ended = subprocess.run(
        [sys.executable, "-P", "-c", COPY],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.stdout == "[8]\n", ended.stderr
    assert ended.returncode == 0
