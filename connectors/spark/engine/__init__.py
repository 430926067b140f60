"""Spark as the engine of a flow: see docs/how-to/spark-clusters.md."""
