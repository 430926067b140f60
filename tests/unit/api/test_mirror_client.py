"""The command line of `connect-mirror-client`, as far as it needs no cluster."""

from __future__ import annotations

import pytest

from api.cli.mirror_client import main


def test_the_target_s_alias_is_asked_for_where_its_offset_topics_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["--bootstrap", "127.0.0.1:1", "--from", "A", "--from-bootstrap", "127.0.0.1:2"]
    assert main(["translate", *where, "--group", "g"]) == 2
    assert "--from-bootstrap needs --to" in capsys.readouterr().err
