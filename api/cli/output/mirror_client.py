"""Prints the results of `connect-mirror-client`: tables on a terminal, tab-separated lines, or
JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from api.cli.output.formats import JSON, YAML, print_document
from api.cli.output.tables import table_printer
from connectors.mirror.failover import MovedOffset, MovePlan
from connectors.mirror.inspect.start_offsets import Start

__all__ = ["Output"]


class Output:
    """Prints to one stream."""

    def __init__(self, out: TextIO, *, as_json: bool = False, output: str | None = None) -> None:
        """`output`: a format; None: tables on a terminal, otherwise tab-separated lines."""
        self._out = out
        self._output = JSON if as_json else output
        self._as_json = self._output in (JSON, YAML)
        self._printer = table_printer(out, self._output)

    def clusters(self, hops: Mapping[str, int]) -> None:
        """Print upstream clusters and their distance in hops."""
        if self._as_json:
            self._json([{"cluster": alias, "hops": hops[alias]} for alias in sorted(hops)])
            return
        self._printer.table(
            "Upstream clusters",
            ("cluster", "hops"),
            [(alias, str(hops[alias])) for alias in sorted(hops)],
        )

    def topics(
        self,
        *,
        heartbeats: Collection[str],
        checkpoints: Collection[str],
        remote: Mapping[str, str],
    ) -> None:
        """Print topics. `remote` maps each copy to its source cluster."""
        if self._as_json:
            self._json(
                {
                    "heartbeats": sorted(heartbeats),
                    "checkpoints": sorted(checkpoints),
                    "remote": {topic: remote[topic] for topic in sorted(remote)},
                }
            )
            return
        for name, topics in (("Heartbeats", heartbeats), ("Checkpoints", checkpoints)):
            self._printer.table(name, ("topic",), [(topic,) for topic in sorted(topics)])
        self._printer.table(
            "Copies", ("topic", "from"), [(topic, remote[topic]) for topic in sorted(remote)]
        )

    def starts(self, starts: Sequence[Start], *, stored: bool) -> None:
        """Print where a flow begins. `stored`: whether that was stored."""
        if self._as_json:
            self._json({"stored": stored, "offsets": [asdict(each) for each in starts]})
            return
        self._printer.table(
            "Begins at" if stored else "Would begin at (--commit stores it)",
            ("topic", "partition", "offset", "from"),
            [
                (
                    each.topic,
                    str(each.partition),
                    str(each.offset),
                    "given" if each.known else "the first record",
                )
                for each in starts
            ],
        )

    def events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Print events of the history, oldest first."""
        if self._as_json:
            self._json(list(events))
            return
        self._printer.table(
            "History",
            ("time (UTC)", "flow", "partition", "kind", "action", "offsets", "what"),
            [
                (
                    f"{datetime.fromtimestamp(each['at_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S}",
                    f"{each['source']}->{each['target']}",
                    f"{each['topic']}-{each['partition']}" if each["topic"] else "",
                    each["kind"],
                    each["action"],
                    _span(each),
                    each["text"],
                )
                for each in events
            ],
        )

    def move(
        self,
        plan: MovePlan,
        outcome: Mapping[str, str | None] | None,
        *,
        rewind: bool = False,
    ) -> None:
        """Print translated offsets. `outcome` is the commit result by group, or None if none was
        requested. `rewind`: offsets that move a group back were committed, too."""
        ahead = {} if outcome is not None and rewind else plan.ahead
        if self._as_json:
            self._json(_move_document(plan, outcome, ahead))
            return
        self._printer.table(
            "From the groups' committed offsets" if plan.live else "From checkpoints",
            (
                "group",
                "topic",
                "partition",
                "committed",
                "new topic",
                "new offset",
                "log end there",
                "read again",
                "committed there",
            ),
            [_row(row) for row in plan.offsets],
        )
        self._say(plan, outcome, ahead)

    def _say(
        self,
        plan: MovePlan,
        outcome: Mapping[str, str | None] | None,
        ahead: Mapping[str, int],
    ) -> None:
        for group, reason in plan.unreadable.items():
            self._printer.line(f"{group}: cannot read its offsets: {reason}", "bold red")
        unknown = sum(row.new_offset is None for row in plan.offsets)
        if unknown:
            self._printer.line(
                f"{unknown} offsets are before the stored offset map or offset syncs; they "
                "cannot be translated and are left unchanged",
                "yellow",
            )
        for group, partitions in ahead.items():
            self._printer.line(
                f"{group}: ahead of these offsets in {partitions} partitions, which "
                f"{'would be' if outcome is None else 'were'} left unchanged; --commit --rewind "
                "moves the group back there",
                "yellow",
            )
        if outcome is None:
            self._printer.line("Nothing was changed. --commit writes these offsets.")
            return
        for group, error in outcome.items():
            if error is not None:
                self._printer.line(f"{group}: not committed: {error}", "bold red")
        self._printer.line(_committed(plan, outcome, ahead))

    def _json(self, document: object) -> None:
        print_document(document, self._output or JSON, self._out)


def _span(event: Mapping[str, Any]) -> str:
    if event["first"] is None:
        return ""
    last = "" if event["last"] is None else f"-{event['last']}"
    return f"{event['side']} {event['first']}{last}"


def _row(row: MovedOffset) -> tuple[str, ...]:
    again = "?" if row.new_offset is not None else ""
    if row.again is not None:
        again = str(row.again) if row.again == 0 else f"at most {row.again}"
    return (
        row.group,
        row.topic,
        str(row.partition),
        str(row.offset),
        row.new_topic,
        "unknown" if row.new_offset is None else str(row.new_offset),
        "" if row.end is None else str(row.end),
        again,
        "" if row.has is None else str(row.has),
    )


def _committed(plan: MovePlan, outcome: Mapping[str, str | None], ahead: Mapping[str, int]) -> str:
    """Return the sentence that counts the groups by the results of their commits."""
    done = [group for group, error in outcome.items() if error is None]
    translated = {row.group for row in plan.offsets if row.new_offset is not None}
    same = translated - outcome.keys() - ahead.keys()
    text = f"Committed for {len(done)} groups"
    if same:
        text += f"; {len(same)} already had these offsets"
    if ahead:
        text += f"; {len(ahead)} are ahead"
    return f"{text}."


def _move_document(
    plan: MovePlan, outcome: Mapping[str, str | None] | None, ahead: Mapping[str, int]
) -> dict[str, object]:
    return {
        "from": "commits" if plan.live else "checkpoints",
        "offsets": [asdict(row) for row in plan.offsets],
        "unreadable": dict(plan.unreadable),
        "ahead": dict(ahead),
        "committed": None
        if outcome is None
        else {group: "done" if error is None else error for group, error in outcome.items()},
    }
