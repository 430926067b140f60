"""Fuzzes the decoders, guided by coverage, each for a while: `make fuzz`.

A finding ends it with status 1. Its input is kept in the target's corpus, where it is a test of
every later run, also of the unit tests.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

from tests.fuzz.targets import CORPUS, TARGETS, found, seeds
from tests.runs.counts import note

_GRACE_S = 60
# No input is worth more: what is beyond is only more of the same.
_MOST_BYTES = 4096
_MOST_MIB = 1024
_SLOWEST_S = 5

# What guides the fuzzer; to watch everything that is imported would take a minute to begin with.
_DECODERS = (
    "api.rest.bodies",
    "api.rest.json_text",
    "connect.config.properties",
    "connect.data.json_codec",
    "connect.protocol.batches",
    "connect.protocol.compression",
    "connect.protocol.frame",
    "connect.protocol.legacy_records",
    "connect.protocol.membership",
    "connect.protocol.message_check",
    "connect.protocol.messages",
    "connect.protocol.record_codec",
    "connect.protocol.record_columns",
    "connect.protocol.records",
    "connect.protocol.varint",
    "connect.storage.config_records",
    "connect.storage.offset_codec",
    "connect.storage.status_records",
    "connectors.mirror.formats",
    "connectors.mirror.offsets.offset_map_pages",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="for each target (default: 20)")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return _fuzz(arguments.one, arguments.seconds)
    chosen = arguments.targets or list(TARGETS)
    failed = [name for name in chosen if not _run(name, arguments.seconds)]
    note({"targets": len(chosen), "seconds each": arguments.seconds, "findings": len(failed)})
    if failed:
        print(f"Findings in {', '.join(failed)}: see {CORPUS}")
    return 1 if failed else 0


def _run(name: str, seconds: int) -> bool:
    """In a process of its own: a finding ends it."""
    print(f"Fuzzing {name} for {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", "--one", name, "--seconds", str(seconds)]
    done = subprocess.run(command, timeout=seconds + _GRACE_S, check=False)
    return done.returncode == 0


def _fuzz(name: str, seconds: int) -> int:
    import atheris  # type: ignore[import-untyped]  # only on some platforms

    # Records that make no sense are logged, which is not what is looked at here.
    logging.getLogger("connect.storage").setLevel(logging.CRITICAL)
    target = TARGETS[name]
    findings = CORPUS / name
    findings.mkdir(parents=True, exist_ok=True)
    for function in _functions():
        atheris.instrument_func(function)
    with tempfile.TemporaryDirectory() as directory:
        for number, seed in enumerate(seeds(name)):
            Path(directory, f"seed-{number}").write_bytes(seed)
        options = [
            f"-max_total_time={seconds}",
            f"-max_len={_MOST_BYTES}",
            f"-rss_limit_mb={_MOST_MIB}",
            f"-timeout={_SLOWEST_S}",
            f"-artifact_prefix={findings}/",
            "-print_final_stats=1",
        ]
        atheris.Setup([name, *options, directory], lambda data: found(target, data))
        atheris.Fuzz()
    return 0


def _functions() -> Iterator[FunctionType]:
    for name in _DECODERS:
        module = sys.modules[name]
        scopes = [vars(module), *(vars(c) for c in vars(module).values() if isinstance(c, type))]
        for scope in scopes:
            for found_there in list(scope.values()):
                function = getattr(found_there, "__func__", found_there)
                if isinstance(function, FunctionType) and function.__module__ == name:
                    yield function


if __name__ == "__main__":
    sys.exit(main())
