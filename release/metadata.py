# SPDX-License-Identifier: Apache-2.0
"""Metadata of The Update Framework 1.0: its canonical form, keys, signatures, and the checks of a whole repository that both `verify` and
`publish` make. Standard library only, and nothing in common with updater/: each is held against the other."""

import calendar
import hashlib
import json
import time
from pathlib import Path

import ed25519
from common import Refused

SPEC = "1.0.31"
TOP = ("root", "targets", "snapshot", "timestamp")


def canonical(value):
    """OLPC's canonical JSON, which is what is signed."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(canonical(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(canonical(key) + ":" + canonical(value[key]) for key in sorted(value)) + "}"
    raise Refused(f"{type(value).__name__} cannot stand in metadata")


def message(body):
    return canonical(body).encode()


def key_of(public):
    return {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": public.hex()}}


def id_of(key):
    return hashlib.sha256(message(key)).hexdigest()


def date(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def expires_in(days, now=None):
    return date((time.time() if now is None else now) + days * 86400)


def seconds_of(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def body(kind, version, expires, **more):
    return {"_type": kind, "spec_version": SPEC, "version": version, "expires": expires, **more}


def to_bytes(document):
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def hashes_of(path):
    data = Path(path).read_bytes()
    return {"length": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}


def read(path, kind=None):
    path = Path(path)
    try:
        document = json.loads(path.read_bytes())
        signed = document["signed"]
        valid = isinstance(document["signatures"], list) and isinstance(signed["version"], int) and kind in (None, signed["_type"])
        seconds_of(signed["expires"])
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        valid = False
    if not valid:
        raise Refused(f"{path}: no {kind or 'metadata'}")
    return document


def signers(document, keys, role):
    """Names of the role's keys that have signed; one that signed twice is one."""
    data, found = message(document["signed"]), set()
    for each in document["signatures"]:
        name, key = each.get("keyid"), keys.get(each.get("keyid"))
        if name not in role["keyids"] or not key or id_of(key) != name or key.get("scheme") != "ed25519":
            continue
        try:
            public, made = bytes.fromhex(key["keyval"]["public"]), bytes.fromhex(each["sig"])
        except (ValueError, KeyError):
            continue
        if ed25519.is_signed(public, made, data):
            found.add(name)
    return found


def require(document, keys, role, where, by=""):
    count = len(signers(document, keys, role))
    if role["threshold"] < 1 or count < role["threshold"]:
        raise Refused(f"{where}: signed by {count} of the {role['threshold']} keys that it takes{by}")


def target_file(path, info):
    """Below targets/, with its digest in front of the name: snapshots are consistent."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{info['hashes']['sha256']}.{name}" if folder else f"{info['hashes']['sha256']}.{name}"


class Repository:
    """What a site's folder holds, checked from its first root on. fetch(path, limit) gives bytes; now is held against each expiry (None: no expiry is looked at)."""

    def __init__(self, fetch, now=None):
        self.fetch, self.now = fetch, now
        self.roots, self.delegated = [], {}
        self.timestamp = self.snapshot = self.targets = None

    def take(self, name, kind, limit, said=None):
        data = self.fetch(f"metadata/{name}", limit)
        if data is None:
            raise Refused(f"metadata/{name}: missing")
        if said and (said.get("length", len(data)) != len(data) or said.get("hashes", {}).get("sha256", hashlib.sha256(data).hexdigest()) != hashlib.sha256(data).hexdigest()):
            raise Refused(f"metadata/{name}: not what the metadata above describes")
        try:
            document = json.loads(data)
            right = document["signed"]["_type"] == kind and isinstance(document["signed"]["version"], int)
            if said and document["signed"]["version"] != said["version"]:
                right = False
        except (ValueError, KeyError, TypeError):
            right = False
        if not right:
            raise Refused(f"metadata/{name}: no {kind} of that version")
        return data, document

    def fresh(self, document, name):
        if self.now is not None and seconds_of(document["signed"]["expires"]) <= self.now:
            raise Refused(f"metadata/{name}: expired on {document['signed']['expires']}")

    def role(self, name):
        return self.roots[-1]["signed"]["keys"], self.roots[-1]["signed"]["roles"][name]

    def check_roots(self, first_digest):
        """The chain of roots; the first is the one that was meant."""
        while True:
            number = len(self.roots) + 1
            if self.roots and self.fetch(f"metadata/{number}.root.json", 512 << 10) is None:
                break
            data, document = self.take(f"{number}.root.json", "root", 512 << 10)
            if number == 1 and hashlib.sha256(data).hexdigest() != first_digest:
                raise Refused(f"metadata/1.root.json: its sha256 is {hashlib.sha256(data).hexdigest()}, not {first_digest}")
            if document["signed"]["version"] != number:
                raise Refused(f"metadata/{number}.root.json: says version {document['signed']['version']}")
            if self.roots:
                require(document, *self.role("root"), f"metadata/{number}.root.json", " of the root before")
            self.roots.append(document)
            require(document, *self.role("root"), f"metadata/{number}.root.json")
        self.fresh(self.roots[-1], f"{len(self.roots)}.root.json")

    def check_metadata(self):
        _, self.timestamp = self.take("timestamp.json", "timestamp", 16 << 10)
        require(self.timestamp, *self.role("timestamp"), "metadata/timestamp.json")
        self.fresh(self.timestamp, "timestamp.json")
        said = self.timestamp["signed"]["meta"]["snapshot.json"]
        name = f"{said['version']}.snapshot.json"
        _, self.snapshot = self.take(name, "snapshot", 2 << 20, said)
        require(self.snapshot, *self.role("snapshot"), f"metadata/{name}")
        self.fresh(self.snapshot, name)
        self.targets = self.check_targets("targets", *self.role("targets"))

    def check_targets(self, role_name, keys, role):
        said = self.snapshot["signed"]["meta"].get(f"{role_name}.json")
        if not said:
            raise Refused(f"metadata/{role_name}.json: not in the snapshot")
        name = f"{said['version']}.{role_name}.json"
        _, document = self.take(name, "targets", 5 << 20, said)
        require(document, keys, role, f"metadata/{name}")
        self.fresh(document, name)
        below = document["signed"].get("delegations") or {"keys": {}, "roles": []}
        for each in below["roles"]:
            self.delegated[each["name"]] = self.check_targets(each["name"], below["keys"], each)
        return document

    def each_target(self):
        """(role, path, what the metadata says of it)."""
        for role, document in [("targets", self.targets), *self.delegated.items()]:
            for path, info in sorted(document["signed"]["targets"].items()):
                yield role, path, info

    def check_target(self, path, info):
        data = self.fetch(f"targets/{target_file(path, info)}", info["length"])
        if data is None or len(data) != info["length"] or hashlib.sha256(data).hexdigest() != info["hashes"]["sha256"]:
            raise Refused(f"targets/{target_file(path, info)}: missing, or not what the metadata describes")
        return data


def from_folder(folder):
    def fetch(path, limit):
        file = Path(folder) / path
        try:
            with file.open("rb") as opened:
                data = opened.read(limit + 1)
        except OSError:
            return None
        if len(data) > limit:
            raise Refused(f"{path}: longer than {limit} bytes")
        return data

    return fetch
