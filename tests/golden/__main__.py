"""Writes the golden files again that Java makes: `make golden`. See what has changed with git."""

from __future__ import annotations

import argparse
import sys

from deploy.brokers import kafka_runtime
from tests.golden.answers import GOLDEN


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(GOLDEN)} (default: all)")
    names = parser.parse_args().names or list(GOLDEN)
    unknown = sorted(set(names) - GOLDEN.keys())
    if unknown:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(GOLDEN)}")
    kafka = kafka_runtime()
    for name in names:
        for path, text in GOLDEN[name](kafka).items():
            same = path.exists() and path.read_text() == text
            path.write_text(text)
            print(f"{name}: {path.name} {'is as it was' if same else 'HAS CHANGED'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
