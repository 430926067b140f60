"""The questions of tests/golden/connect_data, which ConnectData.java answers."""

from __future__ import annotations

import json

from tests.golden.connect_data.converter_cases import (
    from_bytes_cases,
    parse_cases,
    to_bytes_cases,
)
from tests.golden.connect_data.transform_cases import predicate_cases, transform_cases

__all__ = ["cases_text"]


def cases_text() -> str:
    """The text of cases.json: one case a line."""
    cases = [
        *transform_cases(),
        *predicate_cases(),
        *to_bytes_cases(),
        *from_bytes_cases(),
        *parse_cases(),
    ]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    return f"[\n{lines}\n]\n"
