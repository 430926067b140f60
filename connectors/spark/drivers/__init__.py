"""The drivers of Spark sessions."""

# Before its parts: tests/unit/test_layers.py says why.
import pyspark  # noqa: F401
