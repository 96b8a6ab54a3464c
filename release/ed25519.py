# SPDX-License-Identifier: Apache-2.0
"""Checks Ed25519 signatures (RFC 8032) with OpenSSL's own program, so that whoever checks a release needs that and Python, and no
package. It never holds a secret."""

import subprocess
import tempfile
from pathlib import Path

from common import Refused

# SubjectPublicKeyInfo of an Ed25519 key up to its 32 bytes (RFC 8410, section 4).
DER_HEAD = bytes.fromhex("302a300506032b6570032100")


def is_signed(public, signature, message):
    """True when signature (64 bytes) is the key's (32 bytes) over message. Refused: there is no OpenSSL 3."""
    if len(public) != 32 or len(signature) != 64:
        return False
    with tempfile.TemporaryDirectory() as folder:
        files = {"key": DER_HEAD + public, "signature": signature, "message": message}
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey", "key", "-sigfile", "signature",
                   "-in", "message"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise Refused("openssl: not found; signatures are checked by OpenSSL 3 or later") from None
    if done.returncode == 0 and "Verified Successfully" in done.stdout:
        return True
    if "rawin" in done.stderr:
        raise Refused("openssl: older than 3, cannot check Ed25519 signatures")
    return False
