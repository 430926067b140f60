"""The versions that this program has and tells."""

from __future__ import annotations

__all__ = ["KAFKA_VERSION", "VERSION"]

VERSION = "0.1.0"
"""This program's release. The only place that says it: the build reads it here."""

KAFKA_VERSION = "4.3.1"
"""The release of Apache Kafka whose behaviour this is. Plugins that stand for Kafka's own have it
as their version, so that a config that asks for one runs here as it does there."""
