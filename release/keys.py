# SPDX-License-Identifier: Apache-2.0
"""Keys of a release, encrypted at rest: Argon2id over a passphrase, ChaCha20-Poly1305 over the seed with everything else in the file as
associated data. Needs the package `cryptography` (release/requirements.txt); only `sign` does."""

import getpass
import json
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

import metadata
import minisign
from common import Refused

KIND = "tracer-key-1"
PASSES, LANES = 3, 1
MEMORY_MAX_KIB = 4 << 20


class Key:
    """name; public: 32 bytes; sign(bytes): 64 bytes."""

    def __init__(self, name, seed):
        private = Ed25519PrivateKey.from_private_bytes(seed)
        self.name, self.sign = name, private.sign
        self.public = private.public_key().public_bytes_raw()

    def sign_metadata(self, document):
        """Puts the key's signature in, in place of one that it has there."""
        name = metadata.id_of(metadata.key_of(self.public))
        kept = [each for each in document["signatures"] if each["keyid"] != name]
        made = self.sign(metadata.message(document["signed"])).hex()
        document["signatures"] = sorted([*kept, {"keyid": name, "sig": made}], key=lambda each: each["keyid"])


def passphrase(name, folder, again=False):
    """folder/NAME when a folder is given, for what has to run unattended; else asked for on the terminal."""
    if folder is None:
        first = getpass.getpass(f"passphrase of {name}: ")
        if again and getpass.getpass("once more: ") != first:
            raise Refused("the two passphrases differ")
    else:
        file = Path(folder) / name
        try:
            if file.stat().st_mode & 0o077:
                raise Refused(f"{file}: others may read it; chmod 600")
            first = file.read_text().rstrip("\n")
        except OSError as error:
            raise Refused(f"{file}: {error.strerror}") from None
    if len(first) < 12:
        raise Refused(f"{name}: a passphrase has 12 characters or more")
    return first.encode()


def cipher(secret, kdf):
    derived = Argon2id(salt=bytes.fromhex(kdf["salt"]), length=32, iterations=kdf["passes"], lanes=kdf["lanes"], memory_cost=kdf["memory_kib"])
    return ChaCha20Poly1305(derived.derive(secret))


def make(name, folder, passphrases=None, memory_kib=256 << 10):
    """Writes folder/NAME.key, for its owner only, and folder/NAME.pub; never over one that is there."""
    seed, nonce = os.urandom(32), os.urandom(12)
    key = Key(name, seed)
    kdf = {"name": "argon2id", "memory_kib": memory_kib, "passes": PASSES, "lanes": LANES, "salt": os.urandom(16).hex()}
    held = {"kind": KIND, "name": name, "public": key.public.hex(), "kdf": kdf, "cipher": "chacha20-poly1305", "nonce": nonce.hex()}
    sealed = cipher(passphrase(name, passphrases, again=True), kdf).encrypt(nonce, seed, metadata.message(held))
    for suffix, text, mode in ((".key", json.dumps({**held, "sealed": sealed.hex()}, indent=1) + "\n", 0o600),
                               (".pub", minisign.public_text(name, key.public), 0o644)):
        file = Path(folder) / (name + suffix)
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            raise Refused(f"{file}: {error.strerror}") from None
    return key


def load(path, passphrases=None):
    try:
        held = json.loads(Path(path).read_bytes())
        sealed, kdf = bytes.fromhex(held.pop("sealed")), held["kdf"]
        if held["kind"] != KIND or kdf["name"] != "argon2id" or not 8 <= kdf["memory_kib"] <= MEMORY_MAX_KIB or not 1 <= kdf["passes"] <= 100:
            raise ValueError
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Refused(f"{path}: no key of this tool") from None
    try:
        seed = cipher(passphrase(held["name"], passphrases), kdf).decrypt(bytes.fromhex(held["nonce"]), sealed, metadata.message(held))
    except InvalidTag:
        raise Refused(f"{path}: the passphrase is wrong, or the file was changed") from None
    key = Key(held["name"], seed)
    if key.public.hex() != held["public"]:
        raise Refused(f"{path}: its halves do not belong together")
    return key


def public_of(path):
    """32 bytes of a .pub file."""
    try:
        return minisign.read_public(Path(path).read_text(), path)[1]
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
