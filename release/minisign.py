# SPDX-License-Identifier: Apache-2.0
"""Public keys and detached signatures in the form that minisign reads. Standard library only."""

import base64
import hashlib

import ed25519
from common import Refused


def key_id(public):
    """Eight bytes that tell keys apart; here the beginning of a hash, so that a key has one name wherever it is."""
    return hashlib.sha256(public).digest()[:8]


def public_text(name, public):
    packed = base64.b64encode(b"Ed" + key_id(public) + public).decode()
    return f"untrusted comment: tracer {name} {key_id(public).hex().upper()}\n{packed}\n"


def read_public(text, where):
    """(eight bytes of id, 32 bytes) of a .pub file's text, or of its second line alone."""
    try:
        packed = base64.b64decode(text.strip().split("\n")[-1], validate=True)
    except ValueError:
        packed = b""
    if len(packed) != 42 or packed[:2] != b"Ed":
        raise Refused(f"{where}: no minisign public key")
    return packed[2:10], packed[10:]


def signature_text(sign, public, data, comment, hashed):
    """sign: bytes to 64 bytes. hashed: over BLAKE2b-512 of data, as minisign makes by itself; else over data, which signify and OpenSSL check too."""
    message = hashlib.blake2b(data).digest() if hashed else data
    made = sign(message)
    first = base64.b64encode((b"ED" if hashed else b"Ed") + key_id(public) + made).decode()
    second = base64.b64encode(sign(made + comment.encode())).decode()
    return f"untrusted comment: signature from tracer\n{first}\ntrusted comment: {comment}\n{second}\n"


def check(data, text, public_keys, where):
    """The trusted comment of a signature by one of the keys ((id, bytes) each), else Refused."""
    lines = text.split("\n")
    try:
        first, second = base64.b64decode(lines[1], validate=True), base64.b64decode(lines[3], validate=True)
        said, comment = lines[2].split(": ", 1)
    except (IndexError, ValueError):
        raise Refused(f"{where}: no minisign signature") from None
    if len(first) != 74 or first[:2] not in (b"Ed", b"ED") or len(second) != 64 or said != "trusted comment":
        raise Refused(f"{where}: no minisign signature")
    message = hashlib.blake2b(data).digest() if first[:2] == b"ED" else data
    for name, public in public_keys:
        if name == first[2:10] and ed25519.is_signed(public, first[10:], message):
            if not ed25519.is_signed(public, second, first[10:] + comment.encode()):
                raise Refused(f"{where}: its trusted comment was changed")
            return comment
    raise Refused(f"{where}: not signed by the release's key")
