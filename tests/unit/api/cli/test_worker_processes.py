"""`--workers N` from the command line: which code the processes run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 60.0
PROPERTIES = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
metrics.listener = http://127.0.0.1:0
"""


def test_workers_run_nothing_of_the_working_directory(tmp_path: Path) -> None:
    trap = tmp_path / "api" / "__init__.py"
    trap.parent.mkdir()
    trap.write_text("raise RuntimeError('run from the working directory')\n")
    (tmp_path / "mm2.properties").write_text(PROPERTIES)
    # -P: as the installed command, which has its own directory first in its path.
    command = [sys.executable, "-P", "-u", "-m", "api.cli.mirror_maker", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "mm2.properties"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        ready = 0
        for line in process.stderr:
            lines.append(line)
            assert "run from the working directory" not in line, "".join(lines)
            ready += "listening on" in line
            if ready == 2:
                break
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=TIMEOUT_S)[1]
        assert process.returncode == 0, "".join(lines) + rest
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
