"""Keeps a Python process of Spark's from reading the same zip files again before every task.

Before each task PySpark has Python forget which modules there are (`importlib.invalidate_caches`).
Python 3.11 then reads the directory of a zip file again, once for every package in it that
something was imported from: a quarter of a second of CPU for each task, of pyspark.zip alone.
Executors get this.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar
from zipimport import zipimporter

__all__ = ["leaving_zips_read"]

P = ParamSpec("P")
R = TypeVar("R")


def leaving_zips_read(work: Callable[P, R]) -> Callable[P, R]:
    """What a task does, so that the next one in this process need not read zip files again."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        finally:
            _drop_importers()

    return run


def _drop_importers() -> None:
    """What has no importer is not told to forget. With the next import Python makes new ones, from
    the directories it has read, which are kept elsewhere."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            sys.path_importer_cache.pop(path, None)
