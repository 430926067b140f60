"""The image of deploy/container: built twice alike, and run as a mirror."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deploy.brokers import GuardedProcess, KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import PortLease
from tests.support.deployment.images import Images, missing
from tests.support.deployment.machine import debian
from tests.support.deployment.machine import missing as missing_for_debian
from tests.support.flows.mirrors import mm2_properties
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.waiting import wait_until

_MISSING = missing() or missing_for_debian()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING)),
]

COUNT = 100
SOON_S = 90.0


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    try:
        tree = debian(cache_directory())
    except subprocess.CalledProcessError as error:
        pytest.skip(f"debootstrap cannot make a Debian: {error.stdout[-300:]!r}")
    with Images(tree, tmp_path_factory.mktemp("images")) as made:
        yield made


FIRST, SECOND = "localhost/first", "localhost/second"


@pytest.fixture(scope="module")
def layers(images: Images) -> str:
    """The layers of the image `FIRST` of this checkout."""
    return images.build(FIRST)


def test_two_builds_give_the_same_layers(images: Images, layers: str) -> None:
    assert images.build(SECOND) == layers


@pytest.mark.usefixtures("layers")
def test_the_image_mirrors_says_that_it_is_healthy_and_ends_when_it_is_told_to(
    images: Images,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
) -> None:
    servers, copies = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = create_topic(servers, "from-an-image")
    produce(servers, topic, numbered(COUNT))
    container = images.container(FIRST)
    with closing(PortLease(cache_directory() / "ports")) as lease:
        listener = f"http://127.0.0.1:{lease.port}"
        properties = mm2_properties(
            servers, copies, {"topics": topic, "metrics.listener": listener}
        )
        env = {
            "MIRROR_PROPERTIES": properties_text(properties),
            "CONNECT_HEALTH_URL": listener,
        }
        healthy = images.command(container, ["connect-container", "healthy"], env)
        assert subprocess.run(healthy, timeout=SOON_S, check=False).returncode != 0
        mirror = images.command(container, ["connect-container", "mirror"], env)
        with GuardedProcess(mirror, tmp_path / "mirror.log") as process:
            copy = f"source.{topic}"
            wait_until(
                lambda: has_topic(copies, copy) and end_offset(copies, copy) == COUNT,
                SOON_S,
                "the records are copied",
            )
            assert subprocess.run(healthy, timeout=SOON_S, check=False).returncode == 0
            process.signal(signal.SIGTERM)
            process.wait(SOON_S)
