"""Lines in bytes that arrive in any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.files.lines import LineCutter


def cut(pieces: list[bytes], position: int = 0) -> tuple[list[bytes], int]:
    cutter = LineCutter(position)
    lines = []
    for piece in pieces:
        cutter.add(piece)
        while (line := cutter.next_line()) is not None:
            lines.append(line)
    return lines, cutter.position


def test_all_three_line_ends_end_a_line() -> None:
    assert cut([b"a\nb\r\nc\rd\n"]) == ([b"a", b"b", b"c", b"d"], 9)


def test_empty_lines_are_lines() -> None:
    assert cut([b"\n\r\n\n"]) == ([b"", b"", b""], 4)


def test_a_line_without_an_end_waits_for_it_and_does_not_count() -> None:
    assert cut([b"a\nbc"], 10) == ([b"a"], 12)
    assert cut([b"a\nbc", b"d\n"], 10) == ([b"a", b"bcd"], 16)


def test_a_carriage_return_waits_for_what_follows_it() -> None:
    assert cut([b"a\r"]) == ([], 0)
    assert cut([b"a\r", b"\n"]) == ([b"a"], 3)
    assert cut([b"a\r", b"b\n"]) == ([b"a", b"b"], 4)


@given(st.lists(st.text("ab\r\n", max_size=6).map(str.encode), max_size=8), st.integers(0, 2**40))
def test_how_the_bytes_are_cut_changes_nothing(pieces: list[bytes], position: int) -> None:
    lines, end = cut(pieces, position)
    whole = b"".join(pieces)
    assert (lines, end) == cut([whole], position)
    assert b"\n".join(lines) == whole[: end - position].replace(b"\r\n", b"\n").replace(
        b"\r", b"\n"
    ).removesuffix(b"\n")
