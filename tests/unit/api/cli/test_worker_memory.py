"""Threads of a worker process share glibc's memory, and none stops the others to look for garbage
among all objects."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

_THREADS = 12
_PROGRAM = f"""
import ctypes, os, tempfile, threading
from api.cli.program import tune_worker_process
tune_worker_process()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier({_THREADS})

def allocate():
    together.wait(10)
    libc.malloc(100)
    together.wait(10)

threads = [threading.Thread(target=allocate) for _ in range({_THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join(10)
with tempfile.NamedTemporaryFile() as report:
    file = ctypes.c_void_p(libc.fopen(report.name.encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(report.read().count(b"<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
@pytest.mark.parametrize(
    ("environment", "most"),
    [({}, 2), ({"MALLOC_ARENA_MAX": "5"}, 5), ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=5"}, 5)],
    ids=["by default", "by the environment", "by a tunable"],
)
def test_there_are_two_arenas_unless_the_environment_says_otherwise(
    environment: dict[str, str], most: int
) -> None:
    command = [sys.executable, "-c", _PROGRAM]
    ended = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert int(ended.stdout) == most


_GARBAGE = """
import gc
from api.cli.program import spare_what_is_loaded, tune_worker_process
tune_worker_process()
import api.dedicated.status_pages
spare_what_is_loaded()
whole = []
gc.callbacks.append(lambda phase, told: whole.append(phase) if told["generation"] == 2 else None)
for page in range(30):
    samples = [{"lag": number, "tags": [page]} for number in range(20_000)]
print(len(whole), gc.get_freeze_count() > 50_000)
"""


def test_pages_of_metrics_do_not_begin_a_look_at_all_objects() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _GARBAGE], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "0 True\n"
