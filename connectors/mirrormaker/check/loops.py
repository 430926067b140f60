"""Which topics a flow leaves out because their records come from its own target."""

from __future__ import annotations

from connect.clients.errors import not_authorized
from connect.errors import ConnectError
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC, FlowTopics, Provenance
from connectors.mirror.topics.selection import Selection, SkipReason
from connectors.mirrormaker.check.why import Step, Verdict

__all__ = ["loop_step", "without_loops"]


def without_loops(config: SourceConfig, topics: FlowTopics) -> Selection:
    """Return what is left of the selection; all of it if the user may not know. Raises
    `ConnectError`."""
    try:
        return Provenance(config).look(topics)
    except ConnectError as error:
        if not not_authorized(error):
            raise
        return topics.selection  # Missing permissions have a finding of their own.


def loop_step(config: SourceConfig, topics: FlowTopics, switch: tuple[str, int | None]) -> Step:
    """Say whether the one topic of the selection is left out. `switch`: the key that turns the
    search for loops off, and its line. Raises `ConnectError`."""
    question = "Would its copy make a loop?"
    if not config.mirror_provenance_enabled:
        return Step(question, Verdict.OK, "not known: loops are found only by names", *switch)
    if topics.source[1] == topics.target[1]:
        answer = "not by its name; source and target are the same cluster"
        return Step(question, Verdict.OK, answer)
    try:
        skipped = Provenance(config).look(topics).skipped
    except ConnectError as error:
        if not not_authorized(error):
            raise
        answer = f"not known: this user may not read topic {PROVENANCE_TOPIC} of both clusters"
        remedy = f"Grant Read on topic {PROVENANCE_TOPIC} on both clusters"
        return Step(question, Verdict.WARN, answer, remedy=remedy)
    loop = next((skip for skip in skipped if skip.reason is SkipReason.LOOP), None)
    if loop is None:
        return Step(question, Verdict.OK, f"no, according to topic {PROVENANCE_TOPIC}")
    return Step(question, Verdict.STOP, f"yes: {loop.detail}")
