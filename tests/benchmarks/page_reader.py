"""Reads a mirror's metrics and health without a pause, until it is killed. Argument: the URL."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request

_TIMEOUT_S = 30.0
_RETRY_S = 0.1


def main() -> None:
    while True:
        for page in ("/metrics", "/health"):
            try:
                with urllib.request.urlopen(sys.argv[1] + page, timeout=_TIMEOUT_S) as answer:
                    answer.read()
            except urllib.error.HTTPError:
                """It answers, but has nothing to say yet."""
            except OSError:
                time.sleep(_RETRY_S)


if __name__ == "__main__":
    main()
