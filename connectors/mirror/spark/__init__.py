"""The work that runs on Spark: copying, backfills, audits, sync of settings, translation of
offsets."""

# Before its parts: tests/unit/test_layers.py says why.
import pyspark  # noqa: F401
