"""Commands that read client properties from files: no output shows a secret of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.secrets.broker import Guarded, output_of_failure
from tests.support.records.topics import unique
from tests.support.security.canaries import properties_text

COMMANDS = {
    "kafka-mirror-maker": [
        "api.cli.kafka_mirror_maker",
        "--consumer.config",
        "{file}",
        "--producer.config",
        "{file}",
        "--include",
        "nothing",
    ],
    "kafka-consumer-offset-checker": [
        "api.cli.offset_checker",
        "--group",
        "nobody",
        "--bootstrap-server",
        "{servers}",
        "--command-config",
        "{file}",
    ],
    "connect-mirror-client": [
        "api.cli.mirror_client",
        "clusters",
        "--bootstrap",
        "{servers}",
        "--command-config",
        "{file}",
        "--timeout",
        "10",
    ],
}


@pytest.mark.parametrize("wrong", ["password", "login module", "key store"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_fails_shows_no_secret(
    guarded: Guarded, tmp_path: Path, logs: Path, command: str, wrong: str
) -> None:
    canaries, path = guarded.canaries, tmp_path / "client.properties"
    extra = {
        "password": {},
        "login module": {"sasl.jaas.config": f"x.PlainLoginModule required {canaries.new('JAAS')}"},
        "key store": {
            "security.protocol": "SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
        },
    }[wrong]
    properties = {
        **guarded.login(canaries.awkward("a wrong password")),
        **canaries.of_clients(),
        "group.id": unique("group"),
        **extra,
    }
    path.write_text(properties_text(properties))
    arguments = [part.format(file=path, servers=guarded.servers) for part in COMMANDS[command]]
    text = output_of_failure([sys.executable, "-m", *arguments], logs / "command.log")
    assert "Traceback" not in text, text
    assert canaries.leaked(command, text) == []
