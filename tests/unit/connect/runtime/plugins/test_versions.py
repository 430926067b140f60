"""Ranges of plugin versions, as `...plugin.version` properties have them."""

from __future__ import annotations

import pytest

from connect.runtime.errors import BadRequest
from connect.runtime.plugins.versions import VersionRange


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (None, ["0", "9.9", "undefined"], []),
        ("latest", ["1", "undefined"], []),
        ("1.2", ["1.2", "1.2.0"], ["1.2.1", "1.3", "1.2-SNAPSHOT"]),
        ("[1.2]", ["1.2"], ["1.3"]),
        ("[1.0,2.0)", ["1.0", "1.5", "1.10"], ["2.0", "0.9", "undefined"]),
        ("(1.0,2.0]", ["1.0.1", "2"], ["1.0", "2.0.1"]),
        ("[4,)", ["4.3.1", "10"], ["3.9"]),
        ("(,4]", ["4", "0.1"], ["4.0.1"]),
        ("[1,2],[4,5]", ["1", "4.5"], ["3"]),
        ("[1,1" + "0" * 9_999 + "]", ["9", "0" * 9_999 + "1"], ["2" + "0" * 9_999]),
        ("[4.3.0-rc1,4.3.0)", ["4.3.0-rc1", "4.3.0-rc2"], ["4.3.0", "4.3.0-beta1"]),
    ],
)
def test_what_a_range_takes_in(text: str | None, inside: list[str], outside: list[str]) -> None:
    versions = VersionRange.parse(text)
    assert [version for version in inside if version not in versions] == []
    assert [version for version in outside if version in versions] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[1", "Unbounded range"),
        ("[1,2", "Unbounded range"),
        ("(1)", "must be surrounded by"),
        ("[2,1]", "defies version ordering"),
    ],
)
def test_what_is_no_range(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        VersionRange.parse(text)


def test_a_range_is_printed_as_java_prints_it() -> None:
    assert str(VersionRange.parse("9.9")) == "[9.9,9.9]"
