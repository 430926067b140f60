"""Exit codes and times that the commands of workers share. Cheap to import."""

from __future__ import annotations

__all__ = ["EXIT_CONNECTOR", "EXIT_ERROR", "EXIT_OK", "EXIT_USAGE", "STOP_S"]

EXIT_OK, EXIT_USAGE, EXIT_ERROR, EXIT_CONNECTOR = 0, 1, 2, 3

STOP_S = 25.0
"""Budget of a clean stop; little of it is used. Service managers kill after 30 s or more."""
