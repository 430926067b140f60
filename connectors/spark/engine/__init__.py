"""Spark as the engine of a flow: see docs/spark.md."""
