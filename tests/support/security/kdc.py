"""A real MIT Kerberos KDC on loopback, for tests of GSSAPI.

Needs Debian's `krb5-kdc` and `krb5-admin-server` (or MIT krb5's `krb5kdc`, `kdb5_util` and
`kadmin.local` elsewhere), and the Python package `gssapi`. Tests that use it are skipped without
them. It runs as the user of the tests, in a folder of its own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from connect.clock import Deadline
from deploy.brokers import GuardedProcess
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.support.waiting import wait_until

__all__ = ["REALM", "Kdc", "kdc", "missing_for_kerberos"]

REALM = "MIRROR.TEST"

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_READY_S = 30.0
_COMMAND_S = 30.0


def missing_for_kerberos() -> str | None:
    """Return the reason to skip tests of Kerberos here, or None."""
    for program in _PROGRAMS:
        if shutil.which(program, path=_PATH) is None:
            return f"needs {program} (apt-get install krb5-kdc krb5-admin-server)"
    if importlib.util.find_spec("gssapi") is None:
        return "needs gssapi (apt-get install libkrb5-dev; pip install '.[kerberos]')"
    return None


class Kdc:
    """A running KDC with a realm of its own. `kdc` makes one."""

    def __init__(self, directory: Path, port: int, ticket_life: str, more: str) -> None:
        self.directory = directory
        self.config = directory / "krb5.conf"
        self.log = directory / "kdc.log"
        self._port = port
        self._environment = {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
        }
        self._process: GuardedProcess | None = None
        directory.mkdir(parents=True)
        self.config.write_text(
            f"""[libdefaults]
    default_realm = {REALM}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    ticket_lifetime = {ticket_life}
    {more}
[realms]
    {REALM} = {{
        kdc = {LOOPBACK}:{port}
    }}
"""
        )
        (directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = {LOOPBACK}:{port}
[realms]
    {REALM} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        acl_file = {directory}/kadm5.acl
        max_life = {ticket_life}
    }}
[logging]
    kdc = FILE:{self.log}
"""
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the database")

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the KDC, for example after `stop`. `environment` is added to its own."""
        program = shutil.which("krb5kdc", path=_PATH) or "krb5kdc"
        self._process = GuardedProcess(
            [program, "-n", "-r", REALM],
            self.directory / "kdc.out",
            environment={**self._environment, **(environment or {})},
        )
        wait_until(self._answers, _READY_S, "the KDC listens")

    def stop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def keytab(self, principal: str, path: Path | None = None) -> Path:
        """Give a principal, which is added if it is unknown, a new random key. Return a keytab with
        it."""
        path = path or self.directory / f"{principal.replace('/', '_')}.keytab"
        self.administer(f"addprinc -randkey {principal}")
        self.administer(f"ktadd -k {path} {principal}")
        return path

    def administer(self, command: str) -> None:
        """Run one command of kadmin.local."""
        self._run("kadmin.local", "-r", REALM, "-q", command)

    def kinit(self, principal: str, keytab: Path, cache: Path) -> None:
        """Put a ticket into a cache, as kinit does, which needs no package of its own here."""
        import gssapi

        name = gssapi.Name(f"{principal}@{REALM}", gssapi.NameType.kerberos_principal)
        held = gssapi.Credentials(
            name=name, usage="initiate", store={"client_keytab": str(keytab), "ccache": "MEMORY:k"}
        )
        service = gssapi.Name(f"krbtgt/{REALM}@{REALM}", gssapi.NameType.kerberos_principal)
        # Keys become a ticket only when it is used.
        gssapi.SecurityContext(name=service, creds=held, usage="initiate").step()
        held.store({"ccache": f"FILE:{cache}"}, usage="initiate", overwrite=True)

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOOPBACK, self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=_PATH) or program
        done = subprocess.run(
            [found, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=Deadline(_COMMAND_S).remaining(),
            check=False,
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stderr}"


@contextmanager
def kdc(
    directory: Path,
    *,
    ticket_life: str = "1h",
    more: str = "",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Kdc]:
    """Run a KDC in `directory`, which must not exist. `more`: lines of krb5.conf's libdefaults.
    `environment` is added to the KDC's."""
    lease = PortLease(cache_directory() / "ports")
    made = None
    try:
        made = Kdc(directory, lease.port, ticket_life, more)
        made.start(environment)
        yield made
    finally:
        if made is not None:
            made.stop()
        lease.close()
