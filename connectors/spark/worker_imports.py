"""Keeps Spark's Python processes from reading the same zip files again before every task.

Before each task PySpark invalidates the import caches (`importlib.invalidate_caches`). Python 3.11
then reads the directory of a zip file again, once per package that was imported from it. For
pyspark.zip alone, this takes a quarter of a second of CPU per task. Executors run this module to
avoid it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar
from zipimport import zipimporter

__all__ = ["drop_importers", "leaving_zips_read"]

P = ParamSpec("P")
R = TypeVar("R")


def leaving_zips_read(work: Callable[P, R]) -> Callable[P, R]:
    """Wrap a task so that the next task in this process need not read zip files again."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        finally:
            drop_importers()

    return run


def drop_importers() -> None:
    """Drop the cached importers, which would otherwise be invalidated. The next import creates new
    ones from zip directories that are cached elsewhere."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            sys.path_importer_cache.pop(path, None)
