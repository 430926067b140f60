"""`connect-container`: the entry point of images. Takes the configuration from a mounted file, from
the environment, or both.

    connect-container mirror|distributed|standalone [argument ...]
    connect-container healthy

`mirror` runs `connect-mirror run`. Its file is $CONNECT_MIRROR_CONFIG; MIRROR_* variables are
properties, and win. Workers read $CONNECT_CONFIG_FILE, and CONNECT_* variables. In a name `_`
stands for a dot, `__` for `_`, `___` for `-`, and `____` for `->`, as in other Kafka images but for
the last one: CONNECT_BOOTSTRAP_SERVERS is bootstrap.servers, MIRROR_A____B_ENABLED is a->b.enabled.
Without CONNECT_ there are BOOTSTRAP_SERVERS, GROUP_ID and the names of the storage topics, as in
Debezium's image. MIRROR_PROPERTIES is a whole file. `healthy` ends with 0 if the program that was
started answers.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from api.cli.processes.exit_process import leave
from api.cli.program import EXIT_CONFIG, EXIT_FAILED, EXIT_OK, EXIT_USAGE, UsageParser
from api.cli.version import add_version
from connect.config.properties import load_properties
from connect.errors import ConfigError

__all__ = ["command", "environment_properties", "main"]

PROGRAM = "connect-container"
MIRROR, DISTRIBUTED, STANDALONE, HEALTHY = "mirror", "distributed", "standalone", "healthy"

_PREFIXES = {MIRROR: "MIRROR_", DISTRIBUTED: "CONNECT_", STANDALONE: "CONNECT_"}
_FILES = {
    MIRROR: "CONNECT_MIRROR_CONFIG",
    DISTRIBUTED: "CONNECT_CONFIG_FILE",
    STANDALONE: "CONNECT_CONFIG_FILE",
}
_NO_PROPERTIES = frozenset(
    {"CONNECT_MIRROR_CONFIG", "CONNECT_CONFIG_FILE", "MIRROR_PROPERTIES", "CONNECT_LOG_FORMAT"}
)
_SHORT = (
    "BOOTSTRAP_SERVERS",
    "GROUP_ID",
    "CONFIG_STORAGE_TOPIC",
    "OFFSET_STORAGE_TOPIC",
    "STATUS_STORAGE_TOPIC",
)
_WORKER_DEFAULTS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
_UNDERSCORES = {"_": ".", "__": "_", "___": "-", "____": "->"}
_HEALTH_S = 4.0


def property_name(variable: str) -> str:
    """Return the property that the rest of a variable's name stands for."""
    found = re.sub("_+", lambda run: _UNDERSCORES.get(run[0], run[0]), variable)
    return found.lower()


def environment_properties(mode: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the environment sets for `mirror`, `distributed` or
    `standalone`."""
    prefix = _PREFIXES[mode]
    found: dict[str, str] = {}
    if mode != MIRROR:
        found |= {property_name(k): environment[k] for k in _SHORT if k in environment}
    for variable, value in environment.items():
        rest = variable.removeprefix(prefix)
        if rest and rest != variable and variable not in _NO_PROPERTIES:
            found[property_name(rest)] = value
    return found


def _config_file(mode: str, environment: Mapping[str, str]) -> Path:
    """Return the file to run with: the mounted one, or a new one if the environment adds to it.
    Raises `ConfigError`."""
    given = environment.get(_FILES[mode])
    text = environment.get("MIRROR_PROPERTIES") if mode == MIRROR else None
    mounted = None if given is None or text is not None else Path(given)
    if mounted is not None and not mounted.exists():
        mounted = None
    own = environment_properties(mode, environment)
    if mounted is not None and not own:
        # The program watches its file, so it must be the mounted one.
        return mounted
    base = {} if mode == MIRROR else dict(_WORKER_DEFAULTS)
    if text is not None:
        base |= load_properties(_private_file(text))
    elif mounted is not None:
        base |= load_properties(mounted)
    elif not own:
        raise ConfigError(
            f"There is no configuration: mount a file at ${_FILES[mode]} ({given or 'not set'}), "
            f"or set {_PREFIXES[mode]}* variables"
        )
    return _private_file(_file_text({**base, **own}))


def _private_file(text: str) -> Path:
    """Write a file that only this user can read. The container's /tmp ends with it."""
    descriptor, name = tempfile.mkstemp(prefix="connect-", suffix=".properties")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


def _file_text(properties: Mapping[str, str]) -> str:
    """Write properties as a Java properties file."""
    lines = []
    for key, value in properties.items():
        name = re.sub(r"([\\=:#!\s])", r"\\\1", key)
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{name}={chr(92) + text if text.startswith(' ') else text}\n")
    return "".join(lines)


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run the program and return its exit code."""
    parser = UsageParser(
        prog=PROGRAM,
        description="Run a mirror or a worker that is configured by its environment.",
        epilog="Exit codes: those of connect-mirror and of the workers.",
    )
    add_version(parser)
    parser.add_argument(
        "mode", nargs="?", default=MIRROR, choices=(*_PREFIXES, HEALTHY), help="what to run"
    )
    parser.add_argument("arguments", nargs="*", help="more arguments of the program")
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    if arguments.mode == HEALTHY:
        return _healthy(environment)
    try:
        path = _config_file(arguments.mode, environment)
    except (ConfigError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return EXIT_CONFIG
    return _start(arguments.mode, str(path), arguments.arguments)


def _start(mode: str, path: str, arguments: Sequence[str]) -> int:
    if mode == MIRROR:
        from api.cli.connect_mirror.main import main as run

        return run(["run", "-c", path, *arguments])
    if mode == DISTRIBUTED:
        from api.cli.distributed import main as run_distributed

        return run_distributed([*arguments, path])
    from api.cli.standalone import main as run_standalone

    return run_standalone([path, *arguments])


def _healthy(environment: Mapping[str, str]) -> int:
    """Ask the liveness page of the program that this container started."""
    from connect.clients.rest_client import RestClient, WorkerUnreachable

    given = environment.get("CONNECT_HEALTH_URL")
    urls = [given] if given else ["http://127.0.0.1:9404", "http://127.0.0.1:8083"]
    for url in urls:
        try:
            answer = RestClient(timeout_s=_HEALTH_S).request("GET", f"{url}/health/live")
        except WorkerUnreachable:
            continue
        if answer.status == 200:
            return EXIT_OK
    print(f"{PROGRAM}: no answer from {' or '.join(urls)}", file=sys.stderr)
    return EXIT_FAILED


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
