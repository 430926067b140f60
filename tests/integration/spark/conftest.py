"""What tests of Spark Connect share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.spark.connect_server import install_client


@pytest.fixture(scope="session")
def connect_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of Spark Connect's client."""
    return install_client(tmp_path_factory.mktemp("connect") / "packages")
