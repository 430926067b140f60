"""Puts the problems of a topic refresh into words, for logs and statuses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.mirror.topics.selection import REFUSED, Skip

__all__ = [
    "TOLD",
    "failures_in_words",
    "hidden_in_words",
    "named",
    "refused_in_words",
    "without_heartbeats",
]

TOLD = 20
"""Maximum number of topics listed in a message."""


def refused_in_words(skipped: Sequence[Skip]) -> str | None:
    """Return the topics that are not copied although they were asked for, with the reasons."""
    lines = [
        f"topic {skip.topic} is not copied: {skip.detail}"
        for skip in skipped
        if skip.reason in REFUSED
    ]
    if len(lines) > TOLD:
        lines[TOLD:] = [f"and {len(lines) - TOLD} more topics"]
    return "\n".join(lines) or None


def failures_in_words(failures: Mapping[str, str]) -> str | None:
    """Return the failures as messages by target topic; only the first few if there are many."""
    names = sorted(failures)
    lines = [f"topic {name} is not ready: {failures[name]}" for name in names[:TOLD]]
    if len(names) > TOLD:
        lines.append(f"and {len(names) - TOLD} more topics")
    return "\n".join(lines) or None


def named(topics: Sequence[str]) -> str:
    """Join these topics; only the first few if there are many."""
    what = "topic" if len(topics) == 1 else "topics"
    more = f" and {len(topics) - TOLD} more" if len(topics) > TOLD else ""
    return f"{what} {', '.join(topics[:TOLD])}{more}"


def hidden_in_words(before: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return the topics that the source does not let us describe: those mirrored `before`, and
    those that the config names one by one."""
    lines = [
        f"{named(topics)}: {what} (TOPIC_AUTHORIZATION_FAILED); grant Read on {named(topics)}, or "
        "exclude it"
        for topics, what in (
            (before, "mirrored before, but the source no longer lets us describe it"),
            (wanted, "the source does not let us describe it"),
        )
        if topics
    ]
    return "\n".join(lines) or None


def without_heartbeats(topic: str) -> str:
    """Return what is missing if the source's heartbeats topic must not be described."""
    return (
        f"heartbeats of the source are not copied, because it does not let us describe {topic} "
        f"(TOPIC_AUTHORIZATION_FAILED); grant Read on topic {topic} at the source, or set "
        "heartbeats.replication.enabled=false"
    )
