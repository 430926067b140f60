"""Several parts of a connector tell what they cannot do; its status shows all of it."""

from __future__ import annotations

from connectors.mirror.background.status_messages import StatusMessages


def test_all_that_is_wrong_is_told_until_nothing_is() -> None:
    told: list[str | None] = []
    troubles = StatusMessages(told.append)
    topics, loop = troubles.part("topics"), troubles.part("loop")
    loop("no broker answers")
    topics("topic t is not ready")
    topics("topic t is not ready")
    loop(None)
    topics(None)
    topics(None)
    assert told == [
        "no broker answers",
        "no broker answers\ntopic t is not ready",
        "topic t is not ready",
        None,
    ]
