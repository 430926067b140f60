"""The page about systemd, typed on a fresh machine: installed, stopped, killed, misconfigured,
rebooted, upgraded and rolled back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.version import VERSION
from deploy.brokers import KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import PortLease
from deploy.release import ROOT, build_sdist, build_wheel
from tests.support.deployment.copied_source import copied_source
from tests.support.deployment.machine import Machine, debian, missing
from tests.support.docs.pages import DOCS, blocks
from tests.support.flows.mirrors import mm2_properties
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

COUNT = 100
COPIED_S = 60.0
# Half a gigabyte is installed, from pip's cache where it is there.
INSTALL_S = 900.0
UNIT, FILE = "connect-mirror", "/etc/kafka-connect-mirror/mm2.properties"
NEXT = "0.2.0"


@dataclass(frozen=True, slots=True)
class Service:
    """A machine where the page's commands were typed, and a topic that its mirror copies."""

    machine: Machine
    source: KafkaCluster
    target: KafkaCluster
    topic: str
    environment: dict[str, str]

    def shows(self, name: str) -> str:
        return self.machine.run(f"systemctl show --value -p {name} {UNIT}").strip()

    def journal(self, of: str = "") -> list[str]:
        command = f"journalctl -u {UNIT} {of} -o cat --no-pager"
        return self.machine.run(command).splitlines()

    @property
    def files(self) -> Path:
        """Where the operator puts files: root's home."""
        return self.machine.root / "root"

    def copies(self) -> None:
        """Write some records: each is on the target once."""
        end = end_offset(self.source.bootstrap_servers, self.topic) + COUNT
        produce(self.source.bootstrap_servers, self.topic, numbered(COUNT))
        servers, copy = self.target.bootstrap_servers, f"source.{self.topic}"
        wait_until(
            lambda: has_topic(servers, copy) and end_offset(servers, copy) >= end,
            COPIED_S,
            "the records are copied",
        )
        assert end_offset(servers, copy) == end

    def settled(self, wanted: str) -> None:
        wait_until(lambda: self.shows("ActiveState") == wanted, COPIED_S, f"it is {wanted}")

    def page(self, number: int) -> str:
        """A block of commands of the page."""
        return blocks(DOCS / "how-to" / "systemd.md")[number].text


INSTALL, CHECK, START, UPGRADE = range(4)


@pytest.fixture(scope="module")
def service(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("machine")
    cache = pip_cache()
    try:
        tree = debian(cache_directory())
    except subprocess.CalledProcessError as error:
        pytest.skip(f"debootstrap cannot make a Debian: {error.stdout[-300:]!r}")
    topic = create_topic(source_cluster.bootstrap_servers, "installed")
    with (
        closing(PortLease(cache_directory() / "ports")) as lease,
        Machine(tree, directory, [cache]) as machine,
    ):
        settings = {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        settings["PIP_CACHE_DIR"] = str(cache)
        found = Service(machine, source_cluster, target_cluster, topic, settings)
        lay(found, directory, lease.port)
        machine.run(found.page(INSTALL), environment=settings, timeout_s=INSTALL_S)
        machine.run(found.page(CHECK))
        machine.run(found.page(START))
        yield found


def pip_cache() -> Path:
    ended = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    )
    path = Path(ended.stdout.strip())
    path.mkdir(parents=True, exist_ok=True)
    return path


def lay(service: Service, directory: Path, port: int) -> None:
    """Put onto the machine what the page says to copy there, and the operator's file."""
    files = service.files
    shutil.copy(wheel(directory / "built", VERSION), files)
    shutil.copy(ROOT / "requirements.lock", files)
    shutil.copy(ROOT / "deploy" / "systemd" / f"{UNIT}.service", files)
    extra = {
        "source->target.topics": service.topic,
        "target.scheduled.rebalance.max.delay.ms": "1000",
        "metrics.listener": f"http://127.0.0.1:{port}",
    }
    servers = service.source.bootstrap_servers, service.target.bootstrap_servers
    lines = [f"{key} = {value}\n" for key, value in mm2_properties(*servers, extra).items()]
    (files / "mm2.properties").write_text("".join(lines))


def wheel(directory: Path, version: str) -> Path:
    """A wheel of this checkout, which says that it is `version`."""
    source = copied_source(directory / "source")
    file = source / "connect" / "version.py"
    file.write_text(file.read_text().replace(f'"{VERSION}"', f'"{version}"'))
    return build_wheel(build_sdist(source, directory / "dist"), directory / "dist")


def test_the_service_copies_and_its_log_is_readable(service: Service) -> None:
    service.copies()
    assert service.shows("ActiveState") == "active"
    status = service.machine.run(f"systemctl status --no-pager {UNIT}")
    assert "Active: active (running)" in status
    # One line an event, without what only developers read.
    lines = service.journal()
    own = [
        line for line in lines if "systemd" not in line and not line.startswith(("Start", "Stop"))
    ]
    assert own
    assert [line for line in own if not re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line)] == []
    # Who may read the passwords, and what the service writes.
    listed = service.machine.run(
        "stat -c '%U %G %a' /etc/kafka-connect-mirror/mm2.properties; "
        "stat -c '%U %a' /var/lib/kafka-connect-mirror/*.db"
    ).splitlines()
    assert listed == ["root kafka-connect-mirror 640", "kafka-connect-mirror 600"]


def test_files_of_kerberos_are_in_reach_of_the_service(service: Service) -> None:
    """As the page says: a keytab beside the properties or at its usual place, read by the group,
    and a ticket cache that another unit of the same user renews."""
    owned = "install -o root -g kafka-connect-mirror -m 0640 /dev/null"
    keytabs = ("/etc/kafka-connect-mirror/mirror.keytab", "/etc/krb5.keytab")
    user = "setpriv --reuid kafka-connect-mirror --regid kafka-connect-mirror --clear-groups"
    inside = f"nsenter --target {service.shows('MainPID')} --mount {user}"
    for keytab in keytabs:
        service.machine.run(f"{owned} {keytab}")
        service.machine.run(f"{inside} test -r {keytab}")
    kind, _, cache = service.shows("Environment").partition("KRB5CCNAME=")[2].partition(":")
    assert kind == "FILE"
    service.machine.run(f"{user} touch {cache.split()[0]}")
    service.machine.run(f"{inside} test -r {cache.split()[0]}")
    service.machine.run(f"systemctl restart {UNIT} && test -e {cache.split()[0]}")


def test_the_operators_commands_find_the_service(service: Service) -> None:
    service.copies()
    run = service.machine.run
    assert "source->target" in run("connect-mirror status", codes=(0, 3))
    assert service.topic in run(f"connect-mirror why {service.topic}", codes=(0, 3))
    assert "task.started" in run("connect-mirror history")
    run("systemd-analyze verify --man=no /etc/systemd/system/connect-mirror.service")
    run(f"systemd-analyze security --no-pager --threshold=20 {UNIT}")


def test_a_killed_service_starts_again_and_copies_nothing_twice(service: Service) -> None:
    service.copies()
    restarts = int(service.shows("NRestarts"))
    service.machine.run(f"systemctl kill -s KILL {UNIT}")
    wait_until(lambda: int(service.shows("NRestarts")) > restarts, COPIED_S, "it starts again")
    service.copies()


def test_a_wrong_configuration_is_told_and_not_tried_again(service: Service) -> None:
    run = service.machine.run
    run(f"cp {FILE} kept; echo 'tasks.max = many' >> {FILE}; systemctl restart {UNIT}")
    service.settled("failed")
    assert (service.shows("ExecMainStatus"), service.shows("NRestarts")) == ("78", "0")
    assert any("tasks.max (line" in line for line in service.journal())
    run(f"cp kept {FILE}; systemctl restart {UNIT}")
    service.copies()


def test_a_reload_applies_the_file_and_keeps_the_process(service: Service) -> None:
    process = service.shows("MainPID")
    more = create_topic(service.source.bootstrap_servers, "more")
    service.machine.run(f"sed -i 's/^source->target.topics = .*/&, {more}/' {FILE}")
    service.machine.run(f"systemctl reload {UNIT}")
    target = service.target.bootstrap_servers
    wait_until(lambda: has_topic(target, f"source.{more}"), COPIED_S, "the file is applied")
    assert service.shows("MainPID") == process


def test_it_stops_cleanly_and_comes_back_with_the_machine(service: Service) -> None:
    service.copies()
    service.machine.run(f"systemctl stop {UNIT}")
    assert (service.shows("Result"), service.shows("ExecMainStatus")) == ("success", "0")
    service.machine.reboot()
    service.settled("active")
    service.copies()


def test_a_newer_version_beside_the_old_one_and_back(service: Service, tmp_path: Path) -> None:
    run = service.machine.run
    for old in service.files.glob("*.whl"):
        old.unlink()
    shutil.copy(wheel(tmp_path, NEXT), service.files)
    install = service.page(INSTALL).splitlines()[:3]
    newer = "\n".join(install).replace(VERSION, NEXT)
    run(newer, environment=service.environment, timeout_s=INSTALL_S)
    for version, commands in (
        (NEXT, service.page(UPGRADE)),
        (VERSION, service.page(UPGRADE).replace(NEXT, VERSION)),
    ):
        run(commands)
        service.copies()
        assert run("connect-mirror --version").startswith(f"connect-mirror {version} ")
        running = run(f"tr '\\0' ' ' < /proc/{service.shows('MainPID')}/cmdline")
        assert running.startswith(f"/opt/kafka-connect-mirror/{version}/bin/")


def test_the_sandbox_lets_a_spark_session_have_the_lowest_priority(service: Service) -> None:
    """A call that the sandbox does not allow would end the whole mirror."""
    unit = (ROOT / "deploy" / "systemd" / f"{UNIT}.service").read_text()
    program = "/opt/kafka-connect-mirror/current/bin/python /opt/lower.py"
    unit = re.sub(r"^ExecStart=.*", f"ExecStart={program}", unit, flags=re.M)
    unit = re.sub(r"^(Restart|StateDir|CacheDir|Configuration).*\n", "", unit, flags=re.M)
    root = service.machine.root
    (root / "etc/systemd/system/lower.service").write_text(unit)
    (root / "opt" / "lower.py").write_text(
        "import os, subprocess\n"
        "from connectors.spark.drivers.jvm_command import lower_cpu_priority\n"
        "with subprocess.Popen(['cat'], stdin=-1, start_new_session=True) as child:\n"
        "    lower_cpu_priority(child.pid)\n"
        "    print('policy', os.sched_getscheduler(child.pid), flush=True)\n"
    )
    service.machine.run("systemctl daemon-reload; systemctl start lower")
    told = wait_until(
        lambda: service.machine.run("journalctl -u lower -o cat --no-pager | grep policy || true"),
        COPIED_S,
        "the program ends",
    )
    assert told.split() == ["policy", str(os.SCHED_IDLE)]
