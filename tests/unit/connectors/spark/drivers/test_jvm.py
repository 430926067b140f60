"""What is logged of the connection to the JVM."""

from __future__ import annotations

import logging

import pytest

from connectors.spark.drivers import jvm


@pytest.mark.parametrize(
    ("path", "logged"), [("/lib/py4j/java_gateway.py", False), ("/app/main.py", True)]
)
def test_errors_that_py4j_raises_are_not_logged_by_it_too(path: str, logged: bool) -> None:
    assert jvm.not_of_py4j in logging.getLogger().filters
    text = "Exception while sending command."
    record = logging.LogRecord("root", logging.ERROR, path, 1059, text, None, None)
    assert jvm.not_of_py4j(record) is logged
