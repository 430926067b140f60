"""Why a cluster cannot be used is named within seconds, in the log and in `/health`, by every
program that has them: `connect-mirror-maker`, `connect-distributed` and `connect-standalone`.

One broker refuses in seven ways, and each program meets each of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connect.clock import SYSTEM_CLOCK
from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from deploy.brokers.ports import LOOPBACK
from tests.support.flows.mirrored import MirroredFlow
from tests.support.properties_files import properties_text
from tests.support.records.topics import unique
from tests.support.security.certificates import Authority
from tests.support.security.secure_listeners import SECRET, sasl_properties, tls_properties
from tests.support.served import page
from tests.support.waiting import wait_until

# Most of it is the start of the program on a busy machine.
NAMED_WITHIN_S = 30.0
WRONG = "close-sesame"
LISTENERS = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@dataclass(frozen=True)
class Cause:
    """A way to be refused. `servers`: an address, or the name of the broker's listener. `client`:
    client properties. `words`: what has to be said, a regular expression."""

    servers: str
    words: str
    client: Mapping[str, str] = field(default_factory=dict)


def login(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="ali" password="{password}";',
    }


TLS = {"security.protocol": "SSL"}
CAUSES = {
    "refused": Cause(f"{LOOPBACK}:1", rf"cannot connect to {LOOPBACK}:1 .*refused"),
    "dns": Cause("kafka.invalid:9092", r"cannot resolve kafka\.invalid:9092"),
    "password": Cause("SASL", r"SASL PLAIN at .* was refused", login(WRONG)),
    "plaintext to TLS": Cause("TLS", r"set security\.protocol to SSL"),
    "TLS to plaintext": Cause("PLAINTEXT", r"set security\.protocol to PLAINTEXT", TLS),
    "certificate": Cause("TLS", r"the broker's certificate is not accepted", TLS),
    "ACL": Cause("SASL", r"AUTHORIZATION_FAILED.*; grant \w+ on (?:topic|group)", login(SECRET)),
}


@pytest.fixture(scope="module")
def refusing(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    properties = {
        **AUTHORIZER,
        **sasl_properties("sasl"),
        **tls_properties("tls", Authority(), LOOPBACK),
    }
    with KafkaCluster(
        name="refusing", kafka=kafka, logs=session_logs, listeners=LISTENERS, properties=properties
    ) as cluster:
        yield cluster


def servers(cluster: KafkaCluster, cause: Cause) -> str:
    return cause.servers if ":" in cause.servers else cluster.bootstrap(cause.servers)


def of_mirror(source: KafkaCluster, refusing: KafkaCluster, cause: Cause) -> dict[str, str]:
    """The target is the cluster that refuses."""
    flow = MirroredFlow(source, refusing)
    client = {f"B.{key}": value for key, value in cause.client.items()}
    return flow.properties({"B.bootstrap.servers": servers(refusing, cause), **client})


def of_worker(refusing: KafkaCluster, cause: Cause, name: str, directory: Path) -> dict[str, str]:
    kinds = ("config", "offset", "status")
    return {
        "bootstrap.servers": servers(refusing, cause),
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "group.id": name,
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in kinds},
        **{f"{kind}.storage.replication.factor": "1" for kind in kinds},
        "offset.storage.file.filename": str(directory / "offsets"),
        "file.connectors.root": str(directory),
        **cause.client,
        **{f"producer.{key}": value for key, value in cause.client.items()},
    }


def file_source(directory: Path, name: str) -> Path:
    """A connector that writes to the worker's cluster. A standalone worker does nothing there
    itself."""
    lines = directory / "lines.txt"
    lines.write_text("one\n")
    path = directory / "connector.properties"
    path.write_text(
        properties_text(
            {
                "name": name,
                "connector.class": "FileStreamSource",
                "file": str(lines),
                "topic": name,
            }
        )
    )
    return path


@dataclass
class Seen:
    """Seconds until the places had the words, and the exit code of a program that has ended."""

    places: dict[str, float]
    code: int | None


def seen(command: Sequence[str], log: Path, listener: str, words: str) -> Seen:
    """Run a program until its log and `/health` have the words, or it has ended."""
    began = SYSTEM_CLOCK.monotonic()
    found: dict[str, float] = {}
    health = ""
    with GuardedProcess(command, log) as process:

        def all_named() -> bool:
            nonlocal health
            ended = not process.running()
            with suppress(OSError):
                health = page(listener, "/health?verbose=true")
            for place, text in (("log", log.read_text()), ("health", health)):
                if place not in found and re.search(words, text):
                    found[place] = SYSTEM_CLOCK.monotonic() - began
            return ended or len(found) == 2

        wait_until(all_named, NAMED_WITHIN_S, f"{words!r} in log and health")
        return Seen(found, process.poll())


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize(
    "program",
    [
        "mirror_maker",
        pytest.param("distributed", marks=pytest.mark.slow),
        pytest.param("standalone", marks=pytest.mark.slow),
    ],
)
def test_the_cause_is_named(
    source_cluster: KafkaCluster,
    refusing: KafkaCluster,
    tmp_path: Path,
    logs: Path,
    listener: str,
    program: str,
    cause: str,
) -> None:
    of, name = CAUSES[cause], unique("worker")
    file = tmp_path / "program.properties"
    command = [sys.executable, "-m", f"api.cli.{program}", str(file)]
    if program == "mirror_maker":
        properties = {**of_mirror(source_cluster, refusing, of), "metrics.listener": listener}
    else:
        properties = {**of_worker(refusing, of, name, tmp_path), "listeners": listener}
    if program == "standalone":
        command.append(str(file_source(tmp_path, name)))
    file.write_text(properties_text(properties))

    found = seen(command, logs / "program.log", listener, of.words)

    # No waiting mends permissions, so a worker that needs them for its own topics ends.
    ends = (program, cause) == ("distributed", "ACL")
    assert set(found.places) == ({"log"} if ends else {"log", "health"}), found
    assert found.code == (2 if ends else None)
