"""The environment variables that Java's EnvVarConfigProvider sees while it reads the properties."""

from __future__ import annotations

__all__ = ["ENVIRONMENT"]

ENVIRONMENT = {
    "MM_GOLDEN_HOST": "ahost",
    "MM_GOLDEN_PORT": "9192",
    "MM_GOLDEN_TASKS": "3",
    "MM_GOLDEN_PASSWORD": "pw",
    "NOT_ALLOWED": "no",
}
