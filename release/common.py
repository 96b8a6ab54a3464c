# SPDX-License-Identifier: Apache-2.0
"""How the tools of a release end, and how they write files."""

import os
import sys
from pathlib import Path


class Refused(Exception):
    """What was in the way, in one sentence."""


def main(run):
    """Exit codes: 0 done; 1 refused, with the reason in one line; 2 wrong usage (argparse)."""
    try:
        sys.exit(run())
    except Refused as refused:
        print(f"{Path(sys.argv[0]).name}: {refused}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def write(path, data, mode=0o644):
    """Whole or not at all, and on the disk."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        part.chmod(mode)
        part.rename(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
