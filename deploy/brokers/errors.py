"""Errors of downloading and running brokers.

ConnectError
└── DeployError               one sentence for the user
    ├── DownloadFailed        a jar or the JRE cannot be downloaded, or does not match its pin
    ├── JavaNotFound          no Java 17 or newer, and none could be installed
    └── ProcessFailed         a child process did not start, or ended too early
"""

from __future__ import annotations

from connect.errors import ConnectError

__all__ = ["DeployError", "DownloadFailed", "JavaNotFound", "ProcessFailed"]


class DeployError(ConnectError):
    """Root of the errors of `deploy`. The message is one sentence for the user."""


class DownloadFailed(DeployError):
    """A download failed after its retries, or does not match the lock file."""


class JavaNotFound(DeployError):
    """There is no Java 17 or newer, and none could be installed."""


class ProcessFailed(DeployError):
    """A child process ended early or was not ready in time. The message names its log file."""
