"""Random faults, replayable by their seed: whatever happens, the copy is proved from the logs.

`make faults FAULT_SEED=5-12 FAULT_MINUTES=1` runs these seeds one after another, each copying at
least once and then exactly once, and ends with a table. Seeds that once found something, and seeds
of every form, are part of `make slow`; a short one is part of `make test`. The schedule and what
was done when are in the test's logs, `story.txt`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.brokers import KafkaRuntime
from tests.support.chaos.forms import Form
from tests.support.chaos.needs import asked_without
from tests.support.chaos.outcome import Rules
from tests.support.chaos.schedule import NEEDS
from tests.support.chaos.seeds import CHOSEN, FOUND, asked_seeds, drawn_rules
from tests.support.chaos.summary import ROWS, failed_row, row
from tests.support.chaos.trial import trial

_RESULTS = Path(__file__).parents[2] / "build" / "faults.jsonl"
_SHORT_S = 8.0
_SHORT_SEED = 109
"""Within seconds, on any machine: a worker killed twice, the target killed, the source silent, a
topic trimmed, one created again twice."""
_KEPT = {**FOUND, **CHOSEN}
_ASKED = asked_seeds(os.environ["FAULT_SEED"]) if "FAULT_SEED" in os.environ else []


def prove(rules: Rules, kafka: KafkaRuntime, logs: Path) -> None:
    try:
        outcome = trial(rules, kafka, logs)
    except BaseException as error:
        ROWS.append(failed_row(rules, error))
        raise
    ROWS.append(row(outcome))
    _RESULTS.parent.mkdir(exist_ok=True)
    with _RESULTS.open("a") as results:
        results.write(outcome.line() + "\n")
    print(outcome.line())
    assert not outcome.findings, "\n".join(map(str, outcome.findings))


@pytest.mark.timeout(400)
def test_a_short_schedule_on_single_brokers(kafka: KafkaRuntime, logs: Path) -> None:
    everywhere = frozenset(NEEDS)
    prove(Rules(_SHORT_SEED, _SHORT_S, nodes=1, without=everywhere, burst_mb=4.0), kafka, logs)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("rules", _KEPT, ids=[f"{r.seed} {r.guarantee}: {_KEPT[r]}" for r in _KEPT])
def test_a_seed_that_runs_for_ever(rules: Rules, kafka: KafkaRuntime, logs: Path) -> None:
    prove(replace(rules, without=asked_without()), kafka, logs)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.skipif(not _ASKED, reason="no FAULT_SEED was given")
@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("seed", _ASKED)
def test_seeds_that_were_asked_for(
    seed: int, exactly_once: bool, kafka: KafkaRuntime, logs: Path
) -> None:
    seconds = 60 * float(os.environ.get("FAULT_MINUTES", "2"))
    form = Form(os.environ["FAULT_FORM"]) if os.environ.get("FAULT_FORM") else None
    rules = drawn_rules(seed, seconds, form=form)
    prove(replace(rules, exactly_once=exactly_once, without=asked_without()), kafka, logs)
