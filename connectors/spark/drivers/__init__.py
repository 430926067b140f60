"""What differs between a session whose driver's JVM is this process's, and one of Spark Connect.

Everything else sees a `SparkSession` and the functions of this package."""

# Before its parts: tests/unit/test_layers.py says why.
import pyspark  # noqa: F401
