"""What git knows of the code that a suite runs on. A machine without git is no error."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["UNKNOWN", "changes_since", "revision"]

UNKNOWN = "unknown"

_TIMEOUT_S = 30.0


def revision(root: Path, apart_from: str) -> str:
    """The commit that is checked out, with ", changed" if files differ from it, new ones included;
    `UNKNOWN` where git cannot say. `apart_from`: a file that does not count."""
    commit = _git(root, "rev-parse", "--short=10", "HEAD")
    if not commit:
        return UNKNOWN
    changes = _git(root, "status", "--porcelain", "--", ".", f":(exclude){apart_from}")
    return f"{commit}, changed" if changes != "" else commit


def changes_since(root: Path, commit: str, paths: Sequence[str]) -> str | None:
    """What has changed in `paths` since a commit, as a phrase; "" for nothing, None where git
    cannot say."""
    log = _git(root, "log", "--format=%h %s", f"{commit}..HEAD", "--", *paths)
    status = _git(root, "status", "--porcelain", "--", *paths)
    if commit == UNKNOWN or log is None or status is None:
        return None
    found = []
    if log:
        newest, *others = log.splitlines()
        found.append(f"{len(others) + 1} commits, the newest {newest}" if others else newest)
    if status:
        found.append("changes that are not committed")
    return "; ".join(found)


def _git(root: Path, *arguments: str) -> str | None:
    """What a git command prints; None if it fails or there is no git."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
