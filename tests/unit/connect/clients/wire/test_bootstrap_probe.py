"""Bootstrap addresses that cannot be looked up."""

from __future__ import annotations

import pytest

from connect.clients.wire.bootstrap_probe import need_resolvable
from connect.clock import Deadline
from connect.errors import ConfigError

# RFC 2606: no resolver knows it.
NOWHERE = "kafka.invalid"
LOOKED_UP_S = 10.0


def test_a_host_that_cannot_be_looked_up_is_named() -> None:
    with pytest.raises(ConfigError, match=f"No resolvable bootstrap urls.*{NOWHERE}:9092"):
        need_resolvable({"bootstrap.servers": f"{NOWHERE}:9092"}, Deadline(LOOKED_UP_S))


def test_one_host_that_can_be_looked_up_is_enough() -> None:
    servers = f"{NOWHERE}:9092,127.0.0.1:1"
    need_resolvable({"bootstrap.servers": servers}, Deadline(LOOKED_UP_S))
