"""Sessions that `open_frames` cannot make."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.dataframes import open_frames


def test_a_spark_connect_server_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    servers = "A.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\n"
    path.write_text(f"clusters = A, B\n{servers}A->B.enabled = true\nspark.remote = sc://h\n")
    reason = (
        r"^open_frames cannot run through Spark Connect \(spark.remote=sc://h\), .* MirrorFrames"
    )
    with pytest.raises(ConfigError, match=reason), open_frames(path):
        pytest.fail("there is no session")
