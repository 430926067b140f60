"""A worker process says at its start, once, that the compiled part is missing."""

from __future__ import annotations

import logging

import pytest

from api.cli.program import tell_missing_parts
from api.rest.health_document import health_document
from connect.protocol import compiled

_LOG = logging.getLogger("test-worker")


def test_a_missing_compiled_part_is_one_warning_with_cost_and_remedy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "native", None)
    tell_missing_parts(_LOG)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    for told in ("µs of CPU", "wheel for this platform", "C compiler"):
        assert told in record.message


def test_nothing_is_said_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "native", compiled)
    tell_missing_parts(_LOG)
    assert not caplog.records


@pytest.mark.parametrize("installed", [True, False])
def test_health_shows_whether_it_is_installed(*, installed: bool) -> None:
    assert health_document({}, compiled=installed)["compiled_part"] is installed
