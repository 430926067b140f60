"""Reading the offsets at which a flow begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.mirror.inspect.start_offsets import read_offsets_file


def test_lines_of_kafkas_own_tool_are_read(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text('orders,0,120\n"my-group","bills",3,7\n\norders,1,0\n')
    assert read_offsets_file(file) == {("orders", 0): 120, ("bills", 3): 7, ("orders", 1): 0}


@pytest.mark.parametrize("line", ["orders,0", "orders,zero,1", "orders"])
def test_another_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"orders,0,120\n{line}\n")
    with pytest.raises(ConfigError, match=r"line 2: .* is not topic,partition,offset"):
        read_offsets_file(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read"):
        read_offsets_file(tmp_path / "none.csv")
