"""Formats the storage of KRaft nodes.

Kafka's tool needs a JVM and a second. The cache keeps the output for one node, and the next node
gets a copy with its own IDs.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from deploy.brokers.cache import cache_directory
from deploy.brokers.errors import ProcessFailed
from deploy.brokers.process import complaints
from deploy.brokers.runtime import JvmOptions, KafkaRuntime

__all__ = ["format_storage", "random_id"]

_TIMEOUT_S = 60.0
_TOOL = "kafka.tools.StorageTool"
_IDS = "meta.properties"
# The initial feature levels of the cluster, the same for all nodes of a version.
_FEATURES = "bootstrap.checkpoint"


def random_id() -> str:
    """Return an ID in Kafka's form. Like Kafka's own IDs it never starts with a dash, which a
    command line would parse as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(
    kafka: KafkaRuntime,
    cluster_id: str,
    node_id: int,
    config: Path,
    data: Path,
    log: Path,
    arguments: Sequence[str] = (),
) -> None:
    """Format `data`, the only log directory of the node that `config` describes. No effect if it is
    formatted. `arguments` are passed to StorageTool, whose output is appended to `log`.

    Raises `ProcessFailed`. Several processes may call it at once.
    """
    if (data / _IDS).exists():
        return
    template = cache_directory() / f"formatted-{kafka.version}" / _FEATURES
    if not arguments and template.exists():
        data.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(template, data / _FEATURES)
        ids = {
            "node.id": str(node_id),
            "directory.id": random_id(),
            "version": "1",
            "cluster.id": cluster_id,
        }
        (data / _IDS).write_text("".join(f"{key}={value}\n" for key, value in ids.items()))
        return
    _run_tool(kafka, ["-t", cluster_id, "-c", str(config), *arguments], node_id, log)
    if not arguments:
        _keep(data / _FEATURES, template)


def _run_tool(kafka: KafkaRuntime, arguments: Sequence[str], node_id: int, log: Path) -> None:
    command = kafka.command(_TOOL, ["format", *arguments], JvmOptions(heap="128m"))
    with log.open("ab") as output:
        start = output.tell()
        try:
            status = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
    if status != 0:
        raise ProcessFailed(
            f"Cannot format the storage of Kafka node {node_id}; {log} "
            f"says:\n{complaints(log, start)}"
        )


def _keep(file: Path, template: Path) -> None:
    """Write the template under a temporary name first, so that other processes never see a partial
    one."""
    template.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=template.parent, delete=False) as copy:
        copy.write(file.read_bytes())
    Path(copy.name).replace(template)
