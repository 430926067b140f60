"""`connect-spark-archive`: pack the Python packages that Spark executors need, or the classes that
the driver's JVM loads.

    connect-spark-archive OUT.tar.gz [--add DISTRIBUTION ...]
    connect-spark-archive --driver-classes

Spark sessions on a cluster build and send the first kind automatically. Use this command to build
one on a machine that matches the executors, or to store one where executors read it faster. With
the second kind sessions with a local master start faster; it is kept in the cache directory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from api.cli.output.read_progress import gathering
from api.cli.program import EXIT_CONFIG, EXIT_FAILED, UsageParser
from api.cli.version import add_version
from connect.cache_directory import cache_directory
from connect.errors import ConfigError, ConnectError
from connect.java_home import find_java
from connectors.spark.packages import pack_environment
from connectors.spark.properties import ENVIRONMENT, EXECUTOR_PYTHON
from connectors.spark.requirements import TOO_NEW_JAVA, require_spark

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = UsageParser(
        prog="connect-spark-archive",
        description="Pack the Python packages that Spark executors need into an archive, or the "
        "classes that a local driver's JVM loads.",
    )
    add_version(parser)
    parser.add_argument("archive", type=Path, nargs="?", metavar="OUT.tar.gz")
    parser.add_argument(
        "--driver-classes",
        action="store_true",
        help="keep the classes of the driver's JVM in the cache directory, so that sessions with a "
        "local master start faster with this Java and this Spark",
    )
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="DISTRIBUTION",
        help="also pack this installed distribution, without its dependencies; may be repeated",
    )
    arguments = parser.parse_args(argv)
    if (arguments.archive is None) is not arguments.driver_classes:
        parser.error("name either OUT.tar.gz or --driver-classes")
    try:
        if arguments.driver_classes:
            return _driver_classes()
        return _packages(arguments.archive, arguments.add)
    except ConfigError as error:
        print(f"connect-spark-archive: {error}", file=sys.stderr)
        return EXIT_CONFIG
    except ConnectError as error:
        print(f"connect-spark-archive: {error}", file=sys.stderr)
    except OSError as error:
        reason = error.strerror or error
        file = arguments.archive or cache_directory()
        print(f"connect-spark-archive: cannot write {file}: {reason}", file=sys.stderr)
    return EXIT_FAILED


def _packages(archive: Path, more: Sequence[str]) -> int:
    with gathering(f"Packing {archive}"):
        pack_environment(archive, more)
    print(f"Made {archive} ({archive.stat().st_size / 1e6:.0f} MB). To use it, set:")
    print(f"spark.archives = {archive}#{ENVIRONMENT}")
    print(f"{EXECUTOR_PYTHON} = ./{ENVIRONMENT}/bin/python")
    return 0


def _driver_classes() -> int:
    require_spark({})
    from connectors.spark.class_archive import class_archive
    from connectors.spark.drivers.jvm_command import spark_home
    from connectors.spark.make_class_archive import make_class_archive

    java = find_java(before=TOO_NEW_JAVA)
    assert java is not None, "require_spark found it"
    archive = class_archive(java, spark_home(), cache_directory())
    with gathering("Starting Spark once, for the classes that it loads"):
        make_class_archive(archive)
    print(f"Made {archive} ({archive.stat().st_size / 1e6:.0f} MB)")
    print("Sessions with a local master use it, with this Java and this Spark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
