"""Exit codes and timeouts shared by the worker commands. Cheap to import."""

from __future__ import annotations

__all__ = ["EXIT_CONNECTOR", "EXIT_ERROR", "EXIT_OK", "EXIT_USAGE", "STOP_S"]

EXIT_OK, EXIT_USAGE, EXIT_ERROR, EXIT_CONNECTOR = 0, 1, 2, 3

STOP_S = 25.0
"""Time limit for a clean stop, which usually takes much less. Service managers kill after 30 s or
more."""
