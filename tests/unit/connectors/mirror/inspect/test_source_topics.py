"""The topics that `--topics` names."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.mirror.inspect.source_topics import topic_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders|payments.*", "payments-eu", "my-orders"),
        (r"\Qlogs.a\E", "logs.a", "logs-a"),
        ("shard-[a-z&&[^x]]", "shard-b", "shard-x"),
        ("[[a-c]_]+", "a_c", "a-c"),
        (r"\p{Lower}+", "orders", "Orders"),
        (r"day\d", "day1", "day\u0661"),
    ],
)
def test_a_pattern_is_read_as_java_does(pattern: str, matching: str, other: str) -> None:
    topics = topic_pattern(pattern)
    assert topics.fullmatch(matching)
    assert not topics.fullmatch(other)


@pytest.mark.parametrize("pattern", ["(", "(?P<team>a|b)-.*"])
def test_what_java_refuses_is_refused_with_what_to_write(pattern: str) -> None:
    with pytest.raises(
        ConfigError, match=r"for --topics: .* Use a Java regular expression"
    ) as raised:
        topic_pattern(pattern)
    assert raised.value.key == "--topics"
    assert pattern in str(raised.value)
