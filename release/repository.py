# SPDX-License-Identifier: Apache-2.0
"""The folder in which releases are kept (a SITE): SITE/metadata and SITE/targets as The Update Framework has them, SITE/CHANNEL/VERSION as
install.sh has them, SITE/draft with what still lacks signatures. Nothing leaves draft/ but by accept(), which checks the whole first."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import metadata
from common import Refused, read, write

DAYS = {"root": 365, "targets": 180, "snapshot": 90, "timestamp": 30}


class Site:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.metadata, self.draft, self.targets = self.folder / "metadata", self.folder / "draft", self.folder / "targets"

    def latest(self, role):
        """The newest accepted metadata of a role; None: none yet."""
        if role == "timestamp":
            file = self.metadata / "timestamp.json"
            return metadata.read(file, "timestamp") if file.exists() else None
        found = [int(file.name.split(".")[0]) for file in self.metadata.glob(f"*.{role}.json") if file.name.split(".")[0].isdigit()]
        return metadata.read(self.metadata / f"{max(found)}.{role}.json") if found else None

    def begin(self, role, days):
        """What a new version of a role starts from: its draft, else the accepted one, else nothing. Signatures fall."""
        before, file = self.latest(role), self.draft / f"{role}.json"
        document = metadata.read(file) if file.exists() else before
        kind = role if role in metadata.TOP else "targets"
        signed = document["signed"] if document else metadata.body(kind, 0, "", **({"targets": {}} if kind == "targets" else {}))
        signed["version"] = before["signed"]["version"] + 1 if before else 1
        signed["expires"] = metadata.expires_in(days or DAYS[kind])
        return {"signatures": [], "signed": signed}

    def keep(self, role, document):
        write(self.draft / f"{role}.json", metadata.to_bytes(document))
        return self.draft / f"{role}.json"

    def draft_root(self, keys, thresholds, days):
        """keys: role to public keys, thresholds: role to number. A role that is not named keeps what it has."""
        document = self.begin("root", days)
        signed = document["signed"]
        signed["consistent_snapshot"] = True
        held, roles = signed.setdefault("keys", {}), signed.setdefault("roles", {})
        for role in metadata.TOP:
            if keys.get(role):
                made = [metadata.key_of(public) for public in keys[role]]
                held.update({metadata.id_of(key): key for key in made})
                roles[role] = {"keyids": sorted(metadata.id_of(key) for key in made), "threshold": roles.get(role, {}).get("threshold", 1)}
            if role not in roles:
                raise Refused(f"the first root needs keys for {role}")
            roles[role]["threshold"] = thresholds.get(role) or roles[role]["threshold"]
            if roles[role]["threshold"] > len(roles[role]["keyids"]):
                raise Refused(f"{role}: {roles[role]['threshold']} signatures of {len(roles[role]['keyids'])} keys cannot be")
        used = {name for role in roles.values() for name in role["keyids"]}
        signed["keys"] = {name: key for name, key in held.items() if name in used}
        return self.keep("root", document)

    def put(self, document, path, file, custom=None):
        """A file becomes a target; its bytes go below SITE/targets."""
        info = metadata.hashes_of(file)
        if custom:
            info["custom"] = custom
        place = self.targets / metadata.target_file(path, info)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            part = place.with_name(f".{place.name}.part")
            shutil.copyfile(file, part)
            part.rename(place)
        document["signed"]["targets"][path] = info

    def delegate(self, role, paths, publics, threshold, days):
        """Targets that fit one of the patterns are signed by other keys."""
        if role in metadata.TOP or not role.isalnum():
            raise Refused(f"{role}: no name for a delegated role")
        document = self.begin("targets", days)
        below = document["signed"].setdefault("delegations", {"keys": {}, "roles": []})
        made = [metadata.key_of(public) for public in publics]
        below["keys"].update({metadata.id_of(key): key for key in made})
        entry = {"name": role, "keyids": sorted(metadata.id_of(key) for key in made), "threshold": threshold, "paths": paths, "terminating": True}
        below["roles"] = [each for each in below["roles"] if each["name"] != role] + [entry]
        used = {name for each in below["roles"] for name in each["keyids"]}
        below["keys"] = {name: key for name, key in below["keys"].items() if name in used}
        return self.keep("targets", document)

    def delegated(self):
        """Role to its entry, of the draft or of what is accepted."""
        file = self.draft / "targets.json"
        document = metadata.read(file) if file.exists() else self.latest("targets")
        return {each["name"]: each for each in ((document or {}).get("signed", {}).get("delegations") or {"roles": []})["roles"]}

    def online(self, sign_snapshot, sign_timestamp, days):
        """The metadata that says which versions belong together. Accepts the drafts with it, or nothing at all."""
        pending, current = {}, {}
        for file in sorted(self.draft.glob("*.json")):
            document = metadata.read(file)
            pending[f"metadata/{document['signed']['version']}.{file.name}"] = metadata.to_bytes(document)
            current[file.name[:-5]] = document
        snapshot = self.begin("snapshot", days.get("snapshot"))
        meta = snapshot["signed"]["meta"] = {}
        for role in ["targets", *self.delegated()]:
            document = current.get(role) or self.latest(role)
            if document is None:
                raise Refused(f"{role} has no metadata yet")
            meta[f"{role}.json"] = self.said(document, f"{document['signed']['version']}.{role}.json", pending)
        sign_snapshot(snapshot)
        name = f"{snapshot['signed']['version']}.snapshot.json"
        pending[f"metadata/{name}"] = metadata.to_bytes(snapshot)
        self.renew(sign_timestamp, days.get("timestamp"), pending, self.said(snapshot, name, pending))
        for file in self.draft.glob("*.json"):
            file.unlink()

    def said(self, document, name, pending):
        data = pending.get(f"metadata/{name}") or read(self.metadata / name)
        return {"version": document["signed"]["version"], "length": len(data), "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}

    def renew(self, sign_timestamp, days=None, pending=None, said=None):
        """A new timestamp, over what is there or over pending; written last, when all of it holds."""
        pending = pending or {}
        timestamp = self.begin("timestamp", days)
        if said:
            timestamp["signed"]["meta"] = {"snapshot.json": said}
        elif "meta" not in timestamp["signed"]:
            raise Refused("there is no timestamp to renew")
        sign_timestamp(timestamp)
        pending["metadata/timestamp.json"] = metadata.to_bytes(timestamp)
        check(self.folder, pending)
        for path, data in pending.items():
            write(self.folder / path, data)


def first_root(folder, pending=None):
    data = (pending or {}).get("metadata/1.root.json") or read(Path(folder) / "metadata" / "1.root.json")
    return hashlib.sha256(data).hexdigest()


def check(folder, pending=None, now=None):
    """Everything in the folder, as if pending were in it, from its own first root on. Returns the checked repository."""
    pending, below = pending or {}, metadata.from_folder(folder)
    checked = metadata.Repository(lambda path, limit: pending.get(path) or below(path, limit), now)
    checked.check_roots(first_root(folder, pending))
    checked.check_metadata()
    for _, path, info in checked.each_target():
        checked.check_target(path, info)
    return checked


def describe(document):
    """What one is about to sign, in lines."""
    signed = document["signed"]
    yield f"{signed['_type']} version {signed['version']}, expires {signed['expires']}, {len(document['signatures'])} signatures"
    for role, entry in sorted(signed.get("roles", {}).items()):
        yield f"  {role}: {entry['threshold']} of {len(entry['keyids'])}: {' '.join(name[:16] for name in entry['keyids'])}"
    for path, info in sorted(signed.get("targets", {}).items()):
        yield f"  {info['hashes']['sha256']}  {path}  {json.dumps(info['custom'], sort_keys=True) if 'custom' in info else ''}".rstrip()
    for each in (signed.get("delegations") or {"roles": []})["roles"]:
        yield f"  {' '.join(each['paths'])}: role {each['name']}, {each['threshold']} of {len(each['keyids'])}"


def link_or_copy(source, place):
    """The same bytes at another path; a hard link where that can be."""
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(source, part)
    except OSError:
        shutil.copyfile(source, part)
    part.rename(place)
