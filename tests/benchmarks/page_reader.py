"""Reads a mirror's metrics and health, each twice a second, until it is killed. Argument: the URL.

Without a pause between them, two cores that run brokers, mirror and clients have no time left, and
what is measured is the scheduler of the machine.
"""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request

_TIMEOUT_S = 30.0
_PAUSE_S = 0.25


def main() -> None:
    while True:
        for page in ("/metrics", "/health"):
            try:
                with urllib.request.urlopen(sys.argv[1] + page, timeout=_TIMEOUT_S) as answer:
                    answer.read()
            except urllib.error.HTTPError:
                """It answers, but has nothing to say yet."""
            except OSError:
                """It does not listen yet."""
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
