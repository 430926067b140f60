"""What is asked of a history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from connect.config.types import SecretStr
from connectors.mirror.history.database import open_history
from connectors.mirror.history.queries import flow_losses
from connectors.mirror.history.rows import EventRow, FlowTask

FLOW = FlowTask("MirrorSourceConnector", 0, "a", "b")
LOSS = EventRow("retention", "t", 3, "a.t", "report", "source", 10, 59, 50, 60, "lost")


def test_losses_are_found_behind_any_number_of_other_events(tmp_path: Path) -> None:
    url = SecretStr(f"sqlite:///{tmp_path / 'h.db'}")
    history = open_history(url, 7)
    assert history is not None
    history.add(FLOW, LOSS)
    for _ in range(600):
        history.add(FLOW, replace(LOSS, kind="stuck"))
    history.close()

    (found,) = flow_losses(url, "a", "b", 0)
    assert (found["topic"], found["records"]) == ("t", 50)
    assert flow_losses(url, "a", "b", 0, "t") == [found]
    assert flow_losses(url, "a", "b", 0, "other") == []
