"""Random faults, replayable by their seed: whatever happens, the copy is proved from the logs.

`make faults FAULT_SEED=7 FAULT_MINUTES=5` runs one seed for so long, copying at least once and then
exactly once; without, the seeds below run, which found something once (`make slow`, too). A short
one is part of `make test`. The schedule and what was done when are in the test's logs, `story.txt`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.brokers import KafkaRuntime
from tests.support.chaos.trial import Rules, trial

_RESULTS = Path(__file__).parents[2] / "build" / "faults.jsonl"
_SHORT_S = 8.0
_SHORT_SEED = 241
"""Within seconds: a worker killed, brokers of both sides silent, a topic trimmed, and one that was
created again."""
_FOUND_S = 60.0

FOUND = {
    # Under load: a handler that waited for a lock of the thread that it had interrupted.
    (1, True): "a worker that did not hear SIGTERM",
    # librdkafka's admin client read a null pointer when it asked for a group's offsets and the
    # group's coordinator had moved: the workers ended with SIGSEGV. Another time both source tasks
    # failed at their start, as two threads had broken kafka-python's registry of responses. And a
    # worker whose clock had been set back did not stop in time.
    (2, False): "committed offsets read while coordinators move",
    # Tasks that were to begin while the config topic had no leader failed, and stayed so.
    (2, True): "tasks begin while the target's brokers restart",
}
"""What found something: seed and whether exactly-once was on, with what it was."""


def prove(rules: Rules, kafka: KafkaRuntime, logs: Path) -> None:
    outcome = trial(rules, kafka, logs)
    _RESULTS.parent.mkdir(exist_ok=True)
    with _RESULTS.open("a") as results:
        results.write(outcome.line() + "\n")
    print(outcome.line())
    assert not outcome.findings, "\n".join(map(str, outcome.findings))
    # A range comes again for each time a task went on from what was stored, and no more often.
    assert outcome.tally.jumps <= outcome.most_jumps, outcome.line()


@pytest.mark.timeout(300)
def test_a_short_schedule_on_single_brokers(kafka: KafkaRuntime, logs: Path) -> None:
    prove(Rules(_SHORT_SEED, _SHORT_S, nodes=1), kafka, logs)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("seed", "exactly_once"), sorted(FOUND), ids=[f"{s}: {FOUND[s, e]}" for s, e in sorted(FOUND)]
)
def test_a_seed_that_found_something(
    seed: int, exactly_once: bool, kafka: KafkaRuntime, logs: Path
) -> None:
    prove(Rules(seed, _FOUND_S, exactly_once=exactly_once), kafka, logs)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.skipif("FAULT_SEED" not in os.environ, reason="no FAULT_SEED was given")
@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
def test_the_seed_that_was_asked_for(exactly_once: bool, kafka: KafkaRuntime, logs: Path) -> None:
    minutes = float(os.environ.get("FAULT_MINUTES", "2"))
    rules = Rules(int(os.environ["FAULT_SEED"]), minutes * 60, exactly_once=exactly_once)
    prove(rules, kafka, logs)
