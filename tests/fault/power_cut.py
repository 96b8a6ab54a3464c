# SPDX-License-Identifier: Apache-2.0
"""What a power cut may leave of a run, from its system calls as strace shows them. The model is the least that a file system promises:
fsync of a file puts its bytes, owner and mode on disk, fsync of a directory its names; a rename happens whole or not at all. Everything
else since the last fsync may be there or not, in any order: each subset is a state. Bytes that were not flushed are missing, cut in
half, zeros, or there."""

import itertools
import os
import re
from pathlib import Path

CALLS = "open,openat,close,mkdir,mkdirat,write,writev,pwrite64,fchmod,fchmodat,fchown,fsync,fdatasync,rename,renameat,symlink,symlinkat,unlink,unlinkat,rmdir,ftruncate,link,linkat"
FD = r"(?:AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2})*)>"
TEXT = r'"((?:\\x[0-9a-f]{2})*)"'


def text(hexadecimal):
    return bytes.fromhex(hexadecimal.replace("\\x", ""))


class File:
    """bytes and mode: on disk, and as the run sees them."""

    def __init__(self, data=b"", mode=0, durable=False):
        self.data, self.mode = data, mode
        self.disk = (data, mode) if durable else (b"", 0)

    def shapes(self):
        """What may be there after a cut."""
        data, mode = self.disk
        shapes = [(data, mode)]
        if (self.data, self.mode) != self.disk:
            half = self.data[: len(data) + (len(self.data) - len(data)) // 2]
            zeros = data + b"\0" * (len(self.data) - len(data))
            shapes += [(self.data, self.mode), (self.data, mode), (half, self.mode), (zeros, self.mode)]
        return list(dict.fromkeys(shapes))


class Folder:
    """names: as the run sees them; disk: as flushed; pending: what changed since, each {name: node or None}."""

    def __init__(self):
        self.names, self.disk, self.pending = {}, {}, []

    def change(self, entries):
        self.pending.append(entries)
        for name, node in entries.items():
            if node is None:
                self.names.pop(name, None)
            else:
                self.names[name] = node

    def flush(self):
        self.disk, self.pending = dict(self.names), []


class Disk:
    def __init__(self, roots):
        self.roots = [Path(root) for root in roots]
        self.nodes = {root: self.load(root) for root in self.roots}
        self.last = {}

    def load(self, path):
        if path.is_symlink():
            return os.readlink(path)
        if path.is_file():
            return File(path.read_bytes(), path.stat().st_mode & 0o7777, durable=True)
        folder = Folder()
        folder.names = {child.name: self.load(child) for child in path.iterdir()}
        folder.flush()
        return folder

    def find(self, path):
        """The node of a path; None: not below our roots."""
        for root in self.roots:
            if path == root or root in path.parents:
                node = self.nodes[root]
                for part in path.relative_to(root).parts:
                    node = node.names.get(part) if isinstance(node, Folder) else None
                return node
        return None

    def ours(self, path):
        return any(root == path or root in path.parents for root in self.roots)

    def play(self, log, here):
        """Each line of the log, and after it the states that a cut could leave."""
        yield from self.states()
        for line in log.splitlines():
            match = re.match(r"\d+ +(\w+)\((.*)\) += \d+", line)
            assert match or " +++ " in line or " --- " in line, line[:200]
            if match and self.step(match[1], match[2], here):
                yield from self.states()

    def step(self, call, arguments, here):
        fds = [Path(text(fd).decode()) for fd in re.findall(FD, arguments)]
        texts = [text(found) for found in re.findall(TEXT, arguments)]
        if call in ("write", "writev", "pwrite64", "fchmod", "fchown", "fsync", "fdatasync", "ftruncate"):
            node = self.find(fds[0]) if fds else None
            if node is None:
                assert not fds or not self.ours(fds[0]), arguments[:200]
                return False
            return self.change_node(call, node, arguments, texts)
        if call == "close":
            return False
        bases = fds if call.endswith("at") else [here] * len(texts)
        names = [Path(os.path.normpath(base / name.decode())) for base, name in zip(bases, texts[-len(bases):])]
        if call in ("symlink", "symlinkat"):
            names = [Path(os.path.normpath((fds[0] if fds else here) / texts[1].decode()))]
            return self.enter({names[0]: texts[0].decode()})
        if call in ("open", "openat"):
            if "O_CREAT" not in arguments or not self.ours(names[0]) or self.find(names[0]) is not None:
                return False
            return self.enter({names[0]: File(mode=int(re.search(r", 0(\d+)$", arguments)[1], 8))})
        if call in ("mkdir", "mkdirat"):
            return self.enter({names[0]: Folder()})
        if call in ("rename", "renameat"):
            return self.enter({names[0]: None, names[1]: self.find(names[0])})
        if call in ("unlink", "unlinkat", "rmdir"):
            return self.enter({names[0]: None})
        raise AssertionError(f"{call}: no model of it")

    def change_node(self, call, node, arguments, texts):
        if call in ("fsync", "fdatasync"):
            if isinstance(node, Folder):
                node.flush()
            else:
                node.disk = (node.data, node.mode)
        elif call in ("write", "writev"):
            node.data += b"".join(texts)
        elif call == "fchmod" and isinstance(node, File):
            node.mode = int(arguments.rpartition(" ")[2], 8)
        elif call in ("fchown", "fchmod"):
            return False  # of no matter to who may start it
        else:
            raise AssertionError(f"{call}: no model of it")
        return True

    def enter(self, entries):
        if not all(self.ours(path) for path in entries):
            return False
        parents = {path.parent for path in entries}
        assert len(parents) == 1, "a rename between directories has no model"
        self.find(parents.pop()).change({path.name: node for path, node in entries.items()})
        return True

    def trees(self, node):
        """All that may be left of a node, as plain data: {name: ...}, (bytes, mode) or the text of a link."""
        if isinstance(node, str):
            return [node]
        if isinstance(node, File):
            return node.shapes()
        results = []
        for chosen in itertools.product((False, True), repeat=len(node.pending)):
            names = dict(node.disk)
            for entries in itertools.compress(node.pending, chosen):
                for name, child in entries.items():
                    if child is None:
                        names.pop(name, None)
                    else:
                        names[name] = child
            keys = sorted(names)
            for shapes in itertools.product(*(self.trees(names[key]) for key in keys)):
                results.append(dict(zip(keys, shapes)))
        return results

    def states(self):
        """{root: tree} of every combination."""
        for trees in itertools.product(*(self.trees(self.nodes[root]) for root in self.roots)):
            yield dict(zip(self.roots, trees))


def put(tree, path, kept):
    """Makes a tree on disk; kept: {bytes: a file that has them}, to be linked."""
    if isinstance(tree, str):
        path.symlink_to(tree)
    elif isinstance(tree, tuple):
        data, mode = tree
        if (data, mode) in kept:
            os.link(kept[data, mode], path)
        else:
            path.write_bytes(data)
            path.chmod(mode)
    else:
        path.mkdir(parents=True)
        for name, child in tree.items():
            put(child, path / name, kept)


def freeze(tree):
    if isinstance(tree, dict):
        return tuple((name, freeze(child)) for name, child in sorted(tree.items()))
    return tree
