"""A table of the trials of a run: one line for each, whatever came of it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.chaos.outcome import Outcome, Rules

__all__ = ["ROWS", "Row", "failed_row", "row", "table"]

_HEAD = (
    *("seed", "form", "guarantee", "seconds", "faults met", "acknowledged"),
    *("copied", "doubled", "verdict"),
)

Row = tuple[str, ...]
ROWS: list[Row] = []
"""Of this process, in the order in which they ended."""


def _named(rules: Rules) -> Row:
    form = f"{rules.form.value}, {rules.nodes} + {rules.controllers}"
    return str(rules.seed), form, rules.guarantee, f"{rules.seconds:g}"


def row(outcome: Outcome) -> Row:
    kinds = sorted({finding.kind for finding in outcome.findings})
    verdict = f"{len(outcome.findings)} findings: {', '.join(kinds)}" if kinds else "no finding"
    numbers = (
        outcome.faults,
        outcome.fates.get("acknowledged", 0),
        outcome.tally.copied,
        outcome.tally.repeated,
    )
    return (*_named(outcome.rules), *(f"{number:,}" for number in numbers), verdict)


def failed_row(rules: Rules, error: BaseException) -> Row:
    """Of a trial that could not be carried out."""
    text = str(error).splitlines() or [type(error).__name__]
    return (*_named(rules), "", "", "", "", f"failed: {text[0][:80]}")


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    widths = [max(len(each[n]) for each in (_HEAD, *rows)) for n in range(len(_HEAD))]
    lines = [_HEAD, tuple("-" * width for width in widths), *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )
