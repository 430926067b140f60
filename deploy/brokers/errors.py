"""Errors of fetching and running brokers.

ConnectError
└── DeployError               one clear sentence for the person at the terminal
    ├── DownloadFailed        a jar or the JRE could not be fetched, or is not what was pinned
    ├── JavaNotFound          no Java 17 or newer, and none could be installed
    └── ProcessFailed         a child process did not start, or died too early
"""

from __future__ import annotations

from connect.errors import ConnectError

__all__ = ["DeployError", "DownloadFailed", "JavaNotFound", "ProcessFailed"]


class DeployError(ConnectError):
    """Root of this part's errors; the message is one sentence fit to be shown as it is."""


class DownloadFailed(DeployError):
    """A download failed after its retries, or its bytes are not the pinned ones."""


class JavaNotFound(DeployError):
    """Neither a Java 17 or newer was found nor could one be installed."""


class ProcessFailed(DeployError):
    """A child process ended, or did not become ready in time. The message names its log file."""
