"""`connect-spark-archive`: pack the Python packages that Spark executors need.

    connect-spark-archive OUT.tar.gz [--add DISTRIBUTION ...]

Spark sessions on a cluster build and send such an archive automatically. Use this command to build
one on a machine that matches the executors, or to store one where executors read it faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from api.cli.program import EXIT_ERROR, EXIT_USAGE
from api.cli.version import add_version
from connect.errors import ConfigError
from connectors.spark.packages import pack_environment
from connectors.spark.properties import ENVIRONMENT, EXECUTOR_PYTHON

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="connect-spark-archive",
        description="Pack the Python packages that Spark executors need into an archive.",
    )
    add_version(parser)
    parser.add_argument("archive", type=Path, metavar="OUT.tar.gz")
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="DISTRIBUTION",
        help="also pack this installed distribution, without its dependencies; may be repeated",
    )
    arguments = parser.parse_args(argv)
    archive: Path = arguments.archive
    try:
        pack_environment(archive, arguments.add)
    except ConfigError as error:
        print(f"connect-spark-archive: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        reason = error.strerror or error
        print(f"connect-spark-archive: cannot write {archive}: {reason}", file=sys.stderr)
        return EXIT_ERROR
    print(f"Made {archive} ({archive.stat().st_size / 1e6:.0f} MB). To use it, set:")
    print(f"spark.archives = {archive}#{ENVIRONMENT}")
    print(f"{EXECUTOR_PYTHON} = ./{ENVIRONMENT}/bin/python")
    return 0


if __name__ == "__main__":
    sys.exit(main())
