"""The version of this program and the Apache Kafka version whose behaviour it follows."""

from __future__ import annotations

__all__ = ["KAFKA_VERSION", "VERSION"]

VERSION = "0.1.0"
"""This program's release. The build reads it from here."""

KAFKA_VERSION = "4.3.1"
"""The Apache Kafka release whose behaviour this program follows. Plugins that replace Kafka's own
report this version, so that a config that asks for a plugin version works here as in Java.
"""
