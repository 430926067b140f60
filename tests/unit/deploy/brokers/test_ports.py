"""A leased port is free, and nobody else of ours gets it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from deploy.brokers import ports
from deploy.brokers.errors import DeployError
from deploy.brokers.ports import LOOPBACK, PortLease


def only_port(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr("random.randrange", lambda _low, _high: port)
    monkeypatch.setattr(ports, "_ATTEMPTS", 3)


def test_a_port_is_leased_once_until_it_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = PortLease(tmp_path)
    only_port(monkeypatch, lease.port)
    with pytest.raises(DeployError, match="No free port"):
        PortLease(tmp_path)
    lease.close()
    lease.close()
    again = PortLease(tmp_path)
    assert again.port == lease.port
    again.close()


def test_a_port_that_somebody_listens_on_is_not_leased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        only_port(monkeypatch, server.getsockname()[1])
        with pytest.raises(DeployError, match="No free port"):
            PortLease(tmp_path)
