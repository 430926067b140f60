"""A copy of what the sdist is built from: a build writes into its sources."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.release import ROOT


def copied_source(to: Path) -> Path:
    """Copy the checkout's packages and their metadata, without the compiled part, into the new
    directory `to`, and return it."""
    left_out = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("api", "connect", "connectors", "deploy"):
        shutil.copytree(ROOT / name, to / name, ignore=left_out)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, to)
    return to
