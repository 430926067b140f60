"""What a trial takes from the workers' logs, and from how it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from tests.support.chaos.directions import Reports
from tests.support.chaos.forms import Form
from tests.support.chaos.outcome import Outcome, Rules
from tests.support.chaos.seeds import FOUND, asked_seeds, drawn_rules
from tests.support.chaos.summary import failed_row, row, table


def loss(kind: LossKind, first: int = 0, end: int = 0, position: int = 7) -> str:
    found = Loss(kind, LossPolicy.REPORT, ("f.t", 1), ("a.f.t", 1), first, end, position, position)
    return f"2026-11-22 15:07:07.266 ERROR   {found} (connectors.mirror.copy.engine)\n"


def reports(tmp_path: Path, *lines: str) -> Reports:
    log = tmp_path / "worker-1.log"
    log.write_text("".join(lines))
    return Reports.of([log])


def test_what_was_deleted_before_it_was_copied(tmp_path: Path) -> None:
    found = reports(tmp_path, loss(LossKind.RETENTION, 3, 9), loss(LossKind.RETENTION, 20, 21))
    assert found.gone == {("f.t", 1): [(3, 8), (20, 20)]}
    assert not found.created_again
    assert not found.target_lost


def test_topics_created_again(tmp_path: Path) -> None:
    shorter = loss(LossKind.TRUNCATION, 5, 5, position=5)
    found = reports(tmp_path, loss(LossKind.SOURCE_RECREATED), shorter)
    assert found.created_again == {("f.t", 1): [7, 5]}
    assert not found.gone


@pytest.mark.parametrize("kind", [LossKind.TARGET_LOSS, LossKind.TARGET_RECREATED])
def test_a_target_that_lost_something(tmp_path: Path, kind: LossKind) -> None:
    assert reports(tmp_path, loss(kind, 3, 9)).target_lost


def test_seeds_are_asked_for_by_ranges() -> None:
    assert asked_seeds("7") == [7]
    assert asked_seeds("5-8,3") == [5, 6, 7, 8, 3]
    with pytest.raises(ValueError, match="invalid literal"):
        asked_seeds("all")


def test_the_form_of_a_trial_is_drawn_from_its_seed() -> None:
    assert drawn_rules(5, 60.0) == drawn_rules(5, 60.0)
    assert {drawn_rules(seed, 60.0).form for seed in range(30)} == set(Form)
    assert drawn_rules(5, 60.0, form=Form.SPARK).form is Form.SPARK
    tracks = {action.track for action in Rules(5, 300.0, more=True).actions()}
    assert "controllers" not in tracks, "there are none that could be killed alone"


def test_seed_3_runs_for_ever() -> None:
    assert Rules(3, 15.0, exactly_once=True) in FOUND


def test_a_run_ends_with_a_table() -> None:
    done = Outcome(Rules(5, 15.0), "")
    done.fates["acknowledged"] = 143_912
    lines = table([row(done), failed_row(Rules(6, 15.0), TimeoutError("not copied"))]).splitlines()
    assert "143,912" in lines[2]
    assert "no finding" in lines[2]
    assert "failed: not copied" in lines[3]
    assert len({len(line) for line in lines}) == 1
