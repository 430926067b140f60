"""Rough links lose, delay and repeat frames, and TCP gets through them."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys

import pytest

from deploy.brokers.places import Place
from tests.support.chaos.network import Network
from tests.support.chaos.rough_link import Roughness

pytestmark = pytest.mark.skipif(not Network.allowed(), reason="needs root and network namespaces")

MEGABYTES = 3
TIMEOUT_S = 60.0
SERVE = """
import hashlib, socket
server = socket.create_server(("0.0.0.0", 5555))
print("ready", flush=True)
stream, _ = server.accept()
digest = hashlib.md5()
while data := stream.recv(1 << 20):
    digest.update(data)
print(digest.hexdigest())
"""
SEND = """
import random, socket, sys
with socket.create_connection((sys.argv[1], 5555), timeout=float(sys.argv[2])) as stream:
    stream.sendall(random.Random(1).randbytes(int(sys.argv[3])))
"""
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 5556), timeout=float(sys.argv[2]))
except ConnectionRefusedError:
    print("reached")
except OSError:
    print("lost")
"""


def python(place: Place, program: str, *arguments: str) -> list[str]:
    return [*place.prefix, sys.executable, "-c", program, *arguments]


def sent_over(near: Place, far: Place) -> str:
    """The digest of what arrived."""
    with subprocess.Popen(python(far, SERVE), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        size = str(MEGABYTES << 20)
        subprocess.run(
            python(near, SEND, far.host, str(TIMEOUT_S), size), check=True, timeout=TIMEOUT_S
        )
        return server.communicate(timeout=TIMEOUT_S)[0].strip()


def reached(near: Place, far: Place, timeout_s: float) -> str:
    command = python(near, REACH, far.host, str(timeout_s))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "how",
    [
        Roughness(),
        Roughness(loss=0.02),
        Roughness(twice=0.2),
        Roughness(late_s=0.01),
        Roughness(0.02, 0.1, 0.01),
    ],
)
def test_tcp_gets_through(how: Roughness) -> None:
    expected = hashlib.md5(random.Random(1).randbytes(MEGABYTES << 20)).hexdigest()
    with Network() as network:
        near, far = network.add("near"), network.add("far")
        with network.rough("near", how, "1"):
            assert sent_over(near, far) == expected
        assert sent_over(near, far) == expected


def test_lost_frames_are_lost_until_the_link_is_whole_again() -> None:
    with Network() as network:
        near, far = network.add("near"), network.add("far")
        assert reached(near, far, TIMEOUT_S) == "reached"
        with network.rough("far", Roughness(loss=1.0), "1"):
            assert reached(near, far, 2.0) == "lost"
        assert reached(near, far, TIMEOUT_S) == "reached"


def test_a_cut_outlives_a_rough_link_of_another_host() -> None:
    """A bridge that takes the address of one of its ports loses its neighbours, the cuts among
    them, when that port goes."""
    with Network() as network:
        network.add("near")
        far = network.add("far")
        here = Place()
        assert reached(here, far, 5.0) == "reached"
        network.cut("far", "in")
        for host in network.hosts:
            with network.rough(host, Roughness(), "seed"):
                assert reached(here, far, 1.0) == "lost"
            assert reached(here, far, 1.0) == "lost"
        network.heal("far", "in")
        assert reached(here, far, 5.0) == "reached"
