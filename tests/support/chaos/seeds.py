"""Seeds that run for ever, as they once found something or as others lack their faults, and those
that are asked for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from tests.support.chaos.forms import Form
from tests.support.chaos.outcome import Rules

__all__ = ["CHOSEN", "FOUND", "asked_seeds", "drawn_rules"]

_DRAWN_S = 15.0


def drawn_rules(seed: int, seconds: float, *, form: Form | None = None) -> Rules:
    """How a trial of this seed is run: its form is drawn, too, unless it is given. Controllers of
    their own are in two of three."""
    draw = random.Random(f"{seed}/rules")
    drawn = draw.choices(list(Form), (4, 2, 1, 2))[0]
    controllers = draw.choice((0, 1, 1))
    return Rules(seed, seconds, form=form or drawn, controllers=controllers, more=True)


FOUND: Mapping[Rules, str] = {
    # Under load: a handler that waited for a lock of the thread that it had interrupted.
    Rules(1, 60.0, exactly_once=True): "a worker that did not hear SIGTERM",
    # librdkafka's admin client read a null pointer when it asked for a group's offsets and the
    # group's coordinator had moved: the workers ended with SIGSEGV. Another time both source tasks
    # failed at their start, as two threads had broken kafka-python's registry of responses. And a
    # worker whose clock had been set back did not stop in time.
    Rules(2, 60.0): "committed offsets read while coordinators move",
    # Tasks that were to begin while the config topic had no leader failed, and stayed so.
    Rules(2, 60.0, exactly_once=True): "tasks begin while the target's brokers restart",
    # 2,314 records were neither in the copy nor reported: they were trimmed before their
    # partition's first offset was stored, and the task died then.
    Rules(3, 15.0, exactly_once=True): "records trimmed before the first offset was stored",
    # A source broker that had restarted still answered the id of a topic that was deleted. The
    # Spark engine copied the new topic once more, and the offset map lacked 447 of its records.
    Rules(10, 15.0, form=Form.SPARK, more=True): "a broker with old metadata after a topic's end",
    # Tasks that began while the leader of the offsets topic was away asked it for the topic's end,
    # and waited for its answer for a minute. Then a topic that was created again while a batch
    # waited for the target was continued at the old offset.
    drawn_rules(45, _DRAWN_S): "tasks begin while a broker with a full disk is away",
}
"""What each of them found."""

CHOSEN: Mapping[Rules, str] = {
    drawn_rules(91, _DRAWN_S): "connectors of REST, controllers, full disks",
    replace(drawn_rules(109, _DRAWN_S), exactly_once=True): "Spark, controllers, a full disk",
    replace(drawn_rules(1289, _DRAWN_S), exactly_once=True): "two ways, controllers, a full disk",
}
"""Seeds of forms and faults that are not among the others."""


def asked_seeds(text: str) -> list[int]:
    """`7`, `5-12`, `1,3,5-7`. Raises `ValueError`."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
