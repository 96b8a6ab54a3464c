# SPDX-License-Identifier: Apache-2.0
"""A repository of The Update Framework that a test can change at will, made with python-tuf and served over HTTP: another
implementation than ours signs, so that the canonical form and the key ids are held against someone else's."""

import hashlib
import http.server
import json
import pathlib
import subprocess
import threading
import urllib.parse
from datetime import datetime, timedelta, timezone

from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Delegations, Metadata, MetaFile, Root, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization.json import JSONSerializer

from .tracer import BINARY

TOP = ("root", "timestamp", "snapshot", "targets")


def in_days(days):
    return datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=days)


class Repository:
    """roles[name].signed is what publish(name) will sign next, with signers[name]."""

    def __init__(self, consistent=True):
        expires = in_days(90)
        self.roles = {
            "root": Metadata(Root(expires=expires, consistent_snapshot=consistent)),
            "timestamp": Metadata(Timestamp(expires=expires)),
            "snapshot": Metadata(Snapshot(expires=expires)),
            "targets": Metadata(Targets(expires=expires)),
        }
        self.signers = {}
        self.published = {}  # role: its bytes, oldest first
        self.content = {}  # target path: bytes
        self.describe = False  # lengths and digests of metadata in metadata
        self.instead = {}  # path: bytes to serve, or a function of the handler
        self.requests = []
        for role in TOP:
            self.add_key(role)
        self.publish("targets", "snapshot", "timestamp", "root", bump=False)

    def __getattr__(self, role):
        try:
            return self.__dict__["roles"][role].signed
        except KeyError:
            raise AttributeError(role) from None

    def add_key(self, role, signer=None):
        signer = signer or CryptoSigner.generate_ed25519()
        self.root.add_key(signer.public_key, role)
        self.signers.setdefault(role, []).append(signer)
        return signer

    def rotate(self, role):
        for key in list(self.root.roles[role].keyids):
            self.root.revoke_key(key, role)
        self.signers[role] = []
        self.add_key(role)

    def publish(self, *names, bump=True):
        """Signs and shows these roles, in this order; snapshot and timestamp then speak of what was published."""
        for name in names:
            metadata = self.roles[name]
            if bump and name in self.published:
                metadata.signed.version += 1
            metadata.signatures.clear()
            for signer in self.signers[name]:
                metadata.sign(signer, append=True)
            data = metadata.to_bytes(JSONSerializer())
            self.published.setdefault(name, []).append(data)
            said = MetaFile(metadata.signed.version)
            if self.describe:
                said = MetaFile.from_data(metadata.signed.version, data, ["sha256", "sha512"])
            if name == "snapshot":
                self.timestamp.snapshot_meta = said
            elif name not in TOP or name == "targets":
                self.snapshot.meta[f"{name}.json"] = said

    def release(self, *more):
        self.publish(*more, "targets", "snapshot", "timestamp")

    def add_target(self, path, data, role="targets", custom=None):
        target = TargetFile.from_data(path, data, ["sha256", "sha512"])
        if custom:
            target.unrecognized_fields["custom"] = custom
        self.roles[role].signed.targets[path] = target
        self.content[path] = data

    def delegate(self, parent, role, **kwargs):
        """A DelegatedRole of parent; its own metadata is empty until something is added."""
        delegator = self.roles[parent].signed
        if delegator.delegations is None:
            delegator.delegations = Delegations({}, {})
        delegator.delegations.roles[role.name] = role
        signer = CryptoSigner.generate_ed25519()
        delegator.add_key(signer.public_key, role.name)
        self.signers.setdefault(role.name, []).append(signer)
        if role.name not in self.roles:
            self.roles[role.name] = Metadata(Targets(expires=in_days(90)))

    def write(self, folder):
        """All of it as files, as a web server would have them."""
        for role, versions in self.published.items():
            for data in versions:
                name = urllib.parse.quote(role, "")
                version = json.loads(data)["signed"]["version"]
                if role == "root" or (self.root.consistent_snapshot and role != "timestamp"):
                    name = f"{version}.{name}"
                file = folder / "metadata" / f"{name}.json"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        for path, data in self.content.items():
            head, _, name = path.rpartition("/")
            if self.root.consistent_snapshot:
                name = f"{hashlib.sha256(data).hexdigest()}.{name}"
            file = folder / "targets" / head / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def serve(self, path):
        """The bytes at a path of the server; None: nothing there."""
        kind, _, name = path.partition("/")
        if kind == "targets":
            folder, _, file = name.rpartition("/")
            if self.root.consistent_snapshot:
                file = file.partition(".")[2]
            return self.content.get(urllib.parse.unquote(f"{folder}/{file}" if folder else file))
        name = name.removesuffix(".json")
        if name == "timestamp":
            return self.published["timestamp"][-1]
        version, _, role = name.partition(".")
        if not (version.isdigit() and role):
            version, role = None, name
        made = self.published.get(urllib.parse.unquote(role), [])
        if version is None:
            return made[-1] if made and not self.root.consistent_snapshot else None
        found = [data for data in made if json.loads(data)["signed"]["version"] == int(version)]
        return found[-1] if found else None


class Server:
    """Serves one repository on loopback until it is closed."""

    def __init__(self, repository, context=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                path = self.path.lstrip("/")
                repository.requests.append(path)
                data = repository.instead.get(path) or repository.serve(path)
                if callable(data):
                    self.close_connection = True
                    data(self)
                    return
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.http.server_address[1]}"
        if context:
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class Client:
    """`tracer update` with a trusted directory and a place for targets of its own."""

    def __init__(self, folder, repository):
        self.repository = repository
        self.server = Server(repository)
        self.trusted = pathlib.Path(folder) / "trusted"
        self.place = pathlib.Path(folder) / "targets"
        self.place.mkdir()
        self.said = ""

    def run(self, *arguments):
        done = subprocess.run([BINARY, "update", "--metadata-dir", self.trusted, *arguments], capture_output=True, text=True, timeout=60)
        self.said = done.stdout + done.stderr
        return done.returncode

    def init(self, root=None):
        file = self.place.parent / "root.json"
        file.write_bytes(root or self.repository.published["root"][0])
        return self.run("init", file)

    def online(self, *arguments):
        return self.run("--metadata-url", f"{self.server.url}/metadata/", *arguments)

    def refresh(self):
        self.repository.requests.clear()
        return self.online("refresh")

    def download(self, *name):
        return self.online("--target-base-url", f"{self.server.url}/targets/", "--target-dir", self.place, "download", *name)

    def version(self, role):
        """Of what is trusted on disk; None: nothing."""
        try:
            return json.loads((self.trusted / f"{role}.json").read_bytes())["signed"]["version"]
        except FileNotFoundError:
            return None

    def asked(self):
        return [path.removeprefix("metadata/").removesuffix(".json") for path in self.repository.requests if path.startswith("metadata/")]

    def got(self):
        return {path.name: path.read_bytes() for path in self.place.iterdir()}
