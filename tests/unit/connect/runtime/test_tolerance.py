"""Error handling that is not there is refused, never ignored."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connect.runtime.tolerance import check_error_handling


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("errors.tolerance", "all"),
        ("errors.retry.timeout", "-1"),
        ("errors.log.enable", "true"),
        ("errors.deadletterqueue.topic.name", "dead"),
    ],
)
def test_what_would_not_happen_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key) as raised:
        check_error_handling({key: value})
    assert (raised.value.key, raised.value.value) == (key, value)


def test_the_defaults_pass_however_they_are_written() -> None:
    check_error_handling({})
    check_error_handling(
        {"errors.tolerance": " none", "errors.retry.timeout": "0", "errors.log.enable": "FALSE"}
    )
