"""`python -m api.cli.hash_password`: print the hash of a password for a worker's file of users.

The password is asked for on a terminal, else it is the first line of standard input. It is never
an argument, because others can read the arguments of a program.
"""

from __future__ import annotations

import getpass
import sys

from api.rest.passwords import hash_password

__all__ = ["main"]


def main() -> int:
    """Run the program and return its exit code."""
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            print("The passwords differ; nothing was printed", file=sys.stderr)
            return 1
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        print("The password is empty; give one", file=sys.stderr)
        return 1
    print(hash_password(password))
    return 0


if __name__ == "__main__":
    sys.exit(main())
