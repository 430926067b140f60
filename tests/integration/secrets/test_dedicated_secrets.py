"""A mirror whose properties hold a secret wherever one may stand, on its normal and failing ways:
no log, page, history or command line shows any of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from deploy.brokers import GuardedProcess
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.integration.secrets.broker import Guarded
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.producing import numbered, produce
from tests.support.rest import call
from tests.support.security.canaries import jaas_quoted, properties_text
from tests.support.served import health_of, page
from tests.support.waiting import wait_until

WAIT_S = 60.0
STOP_S = 40.0
COMMAND_S = 120.0
COUNT = 20
NOWHERE = f"{LOOPBACK}:1"


class SecretMirror:
    """A flow A->B and its return, on one broker under two names. A's password comes from a file by
    a config provider, B's stands in the properties."""

    def __init__(self, guarded: Guarded, directory: Path, listener: str) -> None:
        self.guarded = guarded
        self.flow = MirroredFlow(guarded.cluster, guarded.cluster)
        self.path = directory / "mm2.properties"
        self.listener = listener
        self._file = directory / "secrets.properties"
        self._file.write_text(
            properties_text({"one": jaas_quoted(guarded.password), "db.password": self._new("db")})
        )
        self.state = directory / "state"
        self._properties = self._made()

    def _new(self, place: str) -> str:
        return self.guarded.canaries.new(place)

    def write(self, password: str | None = None, **extra: str) -> None:
        """`password`: A's, in place of the right one of the file."""
        props = dict(self._properties)
        if password is not None:
            jaas = self.guarded.login(password)["sasl.jaas.config"]
            props[f"{self.flow.a}.sasl.jaas.config"] = jaas
        self.path.write_text(properties_text({**props, **extra}))

    def _made(self) -> dict[str, str]:
        flow, canaries = self.flow, self.guarded.canaries
        a, b = flow.a, flow.b
        login = self.guarded.login()
        from_file = login["sasl.jaas.config"].replace(
            jaas_quoted(self.guarded.password), f"${{file:{self._file}:one}}"
        )
        props = {
            "config.providers": "file,vault",
            "config.providers.file.class": "FileConfigProvider",
            "config.providers.vault.class": "VaultConfigProvider",
            "config.providers.vault.param.url": f"http://{NOWHERE}",
            "config.providers.vault.param.token": self._new("the token of Vault"),
            f"{b}->{a}.enabled": "true",
            f"{b}->{a}.topics": f"{flow.prefix}.none",
            "metrics.listener": self.listener,
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://{LOOPBACK}:0",
            # A database that does not answer: its errors are logged again and again.
            f"{b}->{a}.mirror.history.url": (
                f"postgresql+psycopg://mirror:{quote(canaries.awkward('the history URL'), safe='')}"
                f"@{NOWHERE}/history?connect_timeout=1"
            ),
            f"{a}->{b}.some.plugin.note": f"${{file:{self._file}:db.password}}",
        }
        for alias, jaas in ((a, from_file), (b, login["sasl.jaas.config"])):
            props |= {f"{alias}.{key}": value for key, value in login.items()}
            props[f"{alias}.sasl.jaas.config"] = jaas
        for prefix in ("", f"{a}.", f"{b}.consumer.", f"{a}->{b}.producer.override."):
            props |= canaries.of_clients(prefix)
        props |= canaries.of_clients("listeners.https.")
        return flow.properties(props)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
            env=self.environment,
        )

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.state)}

    @contextmanager
    def running(self, log: Path, *options: str) -> Iterator[GuardedProcess]:
        command = [sys.executable, "-m", "api.cli.mirror_maker", *options, str(self.path)]
        with GuardedProcess(command, log, environment=self.environment) as process:
            try:
                yield process
                assert process.stop(STOP_S) == 0
            except BaseException:
                print(log.read_text(errors="replace")[-6000:])
                raise

    def leaked_by_pages(self) -> list[str]:
        name = f"{self.flow.a}->{self.flow.b}"
        paths = ["/", "/metrics?family=A,B,C", "/health", "/health/ready", "/mirrors"]
        paths += [f"/mirrors/{quote(name)}/{part}" for part in PAGES]

        def ask(path: str) -> tuple[int, bytes]:
            answer = call(self.listener, "GET", path)
            return answer.status, answer.body

        return self.guarded.canaries.leaked_by_answers(ask, dict.fromkeys(paths))


PAGES = ("partitions", "heat", "series", "events", "jobs", "groups", "lag")


@pytest.fixture
def mirror(guarded: Guarded, tmp_path: Path) -> Iterator[SecretMirror]:
    lease = PortLease(cache_directory() / "ports")
    try:
        yield SecretMirror(guarded, tmp_path, f"http://{LOOPBACK}:{lease.port}")
    finally:
        lease.close()


def test_a_running_mirror_shows_no_secret_anywhere(mirror: SecretMirror, logs: Path) -> None:
    canaries, flow, log = mirror.guarded.canaries, mirror.flow, logs / "mirror.log"
    mirror.write()
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(COUNT))
    with mirror.running(log) as process:
        flow.wait_records(topic, [COUNT])
        found = mirror.leaked_by_pages()
        found += canaries.leaked_by_processes(process.pid)

        # A wrong password in the file that is applied while it runs.
        mirror.write(canaries.awkward("a wrong password of A"))
        process.signal(signal.SIGHUP)
        wait_until(
            lambda: "refused" in str(health_of(mirror.listener)["connectors"]),
            WAIT_S,
            "the refusal on /health",
        )
        found += mirror.leaked_by_pages()

        # And a file that cannot be applied, because a key quotes no end.
        a = flow.a
        broken = f'x.PlainLoginModule required password="{canaries.new("a broken login module")}'
        mirror.write(**{f"{a}.sasl.jaas.config": broken})
        process.signal(signal.SIGHUP)
        wait_until(lambda: "Ignoring the changes" in log.read_text(), WAIT_S, "its refusal")
        found += canaries.leaked("/health", page(mirror.listener, "/health"))
    found += canaries.leaked_by_files(log, *_files(mirror.state))
    assert found == []


@pytest.mark.slow
def test_processes_of_one_host_show_no_secret(mirror: SecretMirror, logs: Path) -> None:
    canaries, log = mirror.guarded.canaries, logs / "mirror.log"
    mirror.write()
    topic = mirror.flow.topic()
    produce(mirror.flow.source_servers, topic, numbered(COUNT))
    with mirror.running(log, "--workers", "2") as process:
        mirror.flow.wait_records(topic, [COUNT])
        found = canaries.leaked_by_processes(process.pid)
    assert found + canaries.leaked_by_files(log) == []


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _commands(mirror: SecretMirror) -> list[list[str]]:
    file, flow = str(mirror.path), mirror.flow
    one = ["-c", file, "--flow", f"{flow.a}:{flow.b}"]
    main = "api.cli.connect_mirror.main"
    return [
        ["api.cli.mirror_maker", "--check", file],
        [main, "status", *one, "--url", f"http://{NOWHERE}"],
        [main, "lag", *one],
        [main, "why", *one, "--url", f"http://{NOWHERE}", "--topic", "nothing"],
        [main, "pause", *one],
        [main, "clusters", "-c", file, "--to", flow.b, "--timeout", "10"],
        [main, "acls", "-c", file, "--principal", "User:x"],
        ["api.cli.mirror_audit", "--engine", "local", "--flow", f"{flow.a}:{flow.b}", file],
        ["api.cli.mirror_backfill", "--plan", "--flow", f"{flow.a}:{flow.b}", file],
        ["api.cli.offset_checker", "--config", file, "--flow", f"{flow.a}:{flow.b}"],
    ]


def _told(mirror: SecretMirror) -> list[str]:
    """What leaks from the outputs of all commands that read the file."""

    def run(command: list[str]) -> list[str]:
        done = mirror.command(*command)
        assert "Traceback" not in done.stderr, done.stderr
        what = f"{' '.join(command[:2])} (exit {done.returncode})"
        return mirror.guarded.canaries.leaked(what, done.stdout + done.stderr)

    with ThreadPoolExecutor(4) as pool:
        return [found for each in pool.map(run, _commands(mirror)) for found in each]


def test_commands_show_no_secret_of_a_wrong_password(mirror: SecretMirror) -> None:
    mirror.write(mirror.guarded.canaries.awkward("a wrong password of A"))
    mirror.flow.topic()
    assert _told(mirror) == []


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["nothing", "login module", "keys", "types"])
def test_commands_show_no_secret(mirror: SecretMirror, wrong: str) -> None:
    a, canaries = mirror.flow.a, mirror.guarded.canaries
    extra = {
        "nothing": {},
        "login module": {
            f"{a}.sasl.jaas.config": f"x.OtherLoginModule required password={canaries.new('JAAS')};"
        },
        "keys": {
            f"{a}.security.protocol": "SASL_SSL",
            f"{a}.ssl.keystore.type": "PEM",
            f"{a}.ssl.truststore.type": "PEM",
        },
        "types": {
            f"{a}.request.timeout.ms": "soon",
            "mirror.history.url": canaries.new("a history URL that is none"),
        },
    }[wrong]
    mirror.write(**extra)
    mirror.flow.topic()
    assert _told(mirror) == []
