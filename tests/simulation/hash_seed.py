"""A fixed order of sets of strings, so that a seed gives the same run in every process.

Python shuffles that order anew in each process, unless PYTHONHASHSEED says how. Runs should not
depend on it (`tests/unit/simulation/test_hash_seed.py`); where one does all the same, the command
that repeats a finding repeats it.
"""

from __future__ import annotations

import os
import sys

__all__ = ["with_fixed_hash_seed"]

_NAME = "PYTHONHASHSEED"


def with_fixed_hash_seed(module: str) -> None:
    """Run this module again, in the place of this process, with a fixed hash seed. Returns where
    one is fixed already."""
    if os.environ.get(_NAME, "random") == "random":
        arguments = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, _NAME: "0"})
