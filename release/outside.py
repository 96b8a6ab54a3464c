# SPDX-License-Identifier: Apache-2.0
"""The checks of a published tree that go beyond metadata: what install.sh takes, bills of materials, builds of one's own. Standard library only."""

import hashlib
import json
import re
import shlex

import metadata
import minisign
from common import Refused, read


def need(fetch, path, limit=512 << 20):
    data = fetch(path, limit)
    if data is None:
        raise Refused(f"{path}: missing")
    return data


def programs(checked):
    """(channel, version) to {machine: digest}, as the metadata has them."""
    found = {}
    for _, path, info in checked.each_target():
        custom = info.get("custom", {})
        if custom.get("product") == "tracer":
            if path != f"{custom['channel']}/{custom['version']}/tracer-{custom['architecture']}":
                raise Refused(f"{path}: says that it is {custom}")
            found.setdefault((custom["channel"], custom["version"]), {})[custom["architecture"]] = info["hashes"]["sha256"]
    return found


def release_key(fetch, checked):
    """The key that signs for install.sh is a target: so who trusts the root trusts it."""
    info = checked.targets["signed"]["targets"].get("release.pub")
    if not info:
        raise Refused("release.pub: no target")
    data = checked.check_target("release.pub", info)
    if need(fetch, "release.pub", 4096) != data:
        raise Refused("release.pub: not the one that the metadata describes")
    return minisign.read_public(data.decode(), "release.pub")


def signed(fetch, path, key, limit):
    data = need(fetch, path, limit)
    minisign.check(data, need(fetch, path + ".minisig", 4096).decode("utf-8", "replace"), [key], path)
    return data


def check_version(fetch, key, channel, version, machines):
    """SHA256SUMS is signed, each file is what it says, and the programs are those of the metadata. Digests by name."""
    below = f"{channel}/{version}/"
    text = signed(fetch, below + "SHA256SUMS", key, 64 << 10).decode()
    digests = {}
    for line in text.splitlines():
        digest, _, path = line.partition("  ")
        if not re.fullmatch("[0-9a-f]{64}", digest) or not path.startswith(below):
            raise Refused(f"{below}SHA256SUMS: {line!r} is no line of it")
        if hashlib.sha256(need(fetch, path)).hexdigest() != digest:
            raise Refused(f"{path}: its sha256 is not that of SHA256SUMS")
        digests[path[len(below):]] = digest
    for machine, digest in machines.items():
        if digests.get(f"tracer-{machine}") != digest:
            raise Refused(f"{below}tracer-{machine}: the metadata describes another")
    return digests


def variable(script, name):
    found = re.search(rf"^release_{name}='([^']*)'$", script, re.M)
    if not found:
        raise Refused(f"install.sh: no release_{name}")
    return found[1]


def check_installer(fetch, key, sums_of):
    """install.sh is signed, holds that key and the hashes of its version. Its channel and version."""
    script = signed(fetch, "install.sh", key, 256 << 10).decode()
    for each in shlex.split(variable(script, "keys")):
        if minisign.read_public(each, "install.sh") != key:
            raise Refused("install.sh: holds another key than the release's")
    channel, version = variable(script, "channel"), variable(script, "version")
    pinned = dict(reversed(line.split("  ")) for line in variable(script, "sums").splitlines())
    if not pinned or (channel, version) not in sums_of:
        raise Refused(f"install.sh: {channel} {version} is not published")
    for path, digest in pinned.items():
        if sums_of[channel, version].get(path.rpartition("/")[2]) != digest:
            raise Refused(f"install.sh: its hash of {path} is not that of SHA256SUMS")
    return channel, version


def locked(path):
    """Name to (version, digest of the upstream archive) of deps.lock."""
    rows = (line.split() for line in read(path).decode().splitlines() if line.strip() and not line.startswith("#"))
    return {row[0]: (row[2], row[4]) for row in rows}


def check_materials(data, lock, where):
    """The bill of materials names every pinned source, and nothing else is built in."""
    document = json.loads(data)
    named = {}
    for package in document["packages"]:
        digests = [each["checksumValue"] for each in package.get("checksums", []) if each["algorithm"] == "SHA256"]
        if package["SPDXID"].startswith("SPDXRef-Source-"):
            named[package["name"]] = (package["versionInfo"], digests[0] if digests else None)
    if named != lock:
        raise Refused(f"{where}: not what deps.lock pins: {sorted(set(named.items()) ^ set(lock.items()))}")
    return len(named)


def check_build(folder, digests, where):
    """A build of one's own: the same bytes."""
    compared = [name for name in sorted(digests) if (folder / name).exists()]
    if not any(name.startswith("tracer-") for name in compared):
        raise Refused(f"{folder}: holds no tracer-MACHINE of {where}")
    for name in compared:
        if hashlib.sha256(read(folder / name)).hexdigest() != digests[name]:
            raise Refused(f"{folder / name}: not the bytes that are published in {where}")
    return compared


def first_digest(arguments):
    if arguments.root:
        return hashlib.sha256(read(arguments.root)).hexdigest()
    if not re.fullmatch("[0-9a-f]{64}", arguments.root_sha256 or ""):
        raise Refused("say which first root you mean: --root FILE or --root-sha256 with 64 digits")
    return arguments.root_sha256


def check_tree(fetch, digest, now):
    """Everything that is published. Yields lines of what held; the last yield is (checked, digests by version)."""
    checked = metadata.Repository(fetch, now)
    checked.check_roots(digest)
    newest = checked.roots[-1]["signed"]
    yield f"root: {len(checked.roots)} in a row from the one that was meant, each signed by the one before and itself; {newest['roles']['root']['threshold']} of {len(newest['roles']['root']['keyids'])} keys"
    checked.check_metadata()
    for name in ("targets", "snapshot", "timestamp"):
        role, document = newest["roles"][name], getattr(checked, name)
        yield f"{name}: version {document['signed']['version']}, {role['threshold']} of {len(role['keyids'])} keys, until {document['signed']['expires']}"
    for name, document in sorted(checked.delegated.items()):
        yield f"role {name}: version {document['signed']['version']}, until {document['signed']['expires']}"
    count = 0
    for _, path, info in checked.each_target():
        checked.check_target(path, info)
        count += 1
    yield f"targets: {count}, all bytes as described"
    key, sums_of = release_key(fetch, checked), {}
    for (channel, version), machines in sorted(programs(checked).items()):
        sums_of[channel, version] = check_version(fetch, key, channel, version, machines)
        yield f"{channel} {version}: {', '.join(sorted(machines))}; SHA256SUMS signed, {len(sums_of[channel, version])} files as it says"
    for channel in sorted({channel for channel, _ in sums_of}):
        latest = signed(fetch, f"{channel}/LATEST", key, 4096).decode().split()
        if latest[:2] != ["tracer", channel] or (channel, latest[2]) not in sums_of:
            raise Refused(f"{channel}/LATEST: names {latest[2:]}, which is not published")
        yield f"{channel}: the latest is {latest[2]}"
    if fetch("install.sh", 256 << 10) is not None:
        yield "install.sh: signed; its key and its hashes are those of %s %s" % check_installer(fetch, key, sums_of)
    yield checked, sums_of
