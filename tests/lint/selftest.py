#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that every lint rule fires on what it forbids and is silent on what it allows.

A rule without a case here fails the test, so a new rule brings its case with it.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import lint  # noqa: E402

HEAD = "// SPDX-License-Identifier: Apache-2.0\n// Room: test.\n"
BPF_HEAD = "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n// Room: probe.\n"
HOST = ".".join(("deb", "debian", "org"))
HOME = "/".join(("", "ro" + "ot", "x"))

# (rule, path, text that must be found, text that must pass)
CASES = [
    ("include", "bpf/io.bpf.c", BPF_HEAD + "#include <stdio.h>\n", BPF_HEAD + "#include <bpf/bpf_helpers.h>\n"),
    ("include", "bpf/io.bpf.c", BPF_HEAD + '#include "core/module.h"\n', BPF_HEAD + '#include "bpf/event.h"\n'),
    ("include", "core/base/buf.c", HEAD + "#include <yyjson.h>\n", HEAD + "#include <string.h>\n"),
    ("include", "core/base/buf.c", HEAD + '#include "core/agent.h"\n', HEAD + '#include "core/base/buf.h"\n'),
    ("include", "core/agent.c", HEAD + '#include "modules/io.h"\n', HEAD + '#include "core/module.h"\n'),
    ("include", "core/agent.c", HEAD + '#include "io.skel.h"\n', HEAD + "#include <bpf/libbpf.h>\n"),
    ("include", "core/agent.c", HEAD + '#include "lake/query.h"\n', HEAD + '#include "core/base/fs.h"\n'),
    ("include", "modules/io.c", HEAD + '#include "bpf/mem.h"\n', HEAD + '#include "bpf/io.h"\n'),
    ("include", "modules/io.c", HEAD + '#include "core/spool.h"\n', HEAD + '#include "core/module.h"\n'),
    ("include", "modules/io.c", HEAD + '#include "mem.skel.h"\n', HEAD + '#include "io.skel.h"\n'),
    ("include", "modules/io.c", HEAD + "#include <yaml.h>\n", HEAD + "#include <string.h>\n"),
    ("include", "lake/store.c", HEAD + "#include <bpf/libbpf.h>\n", HEAD + '#include "core/base/fs.h"\n'),
    ("include", "tune/tune.c", HEAD + '#include "lake/store.h"\n', HEAD + '#include "lake/query.h"\n'),
    ("include", "sweep/idle.c", HEAD + '#include "tune/tune.h"\n', HEAD + '#include "sweep/price.h"\n'),
    ("include", "updater/verify.c", HEAD + '#include "core/agent.h"\n', HEAD + "#include <sodium.h>\n"),
    ("include", "updater/verify.c", HEAD + "#include <curl/curl.h>\n", HEAD + '#include "core/base/fs.h"\n'),
    ("include", "updater/verify.c", HEAD + '#include "updater/fetch.h"\n', HEAD + '#include "updater/metadata.h"\n'),
    ("include", "updater/fetch.c", HEAD + '#include "updater/metadata.h"\n', HEAD + "#include <curl/curl.h>\n"),
    ("include", "updater/verify.c", HEAD + '#include "updater/bundle.h"\n', HEAD + '#include "updater/metadata.h"\n'),
    ("include", "updater/bundle.c", HEAD + '#include "updater/metadata.h"\n', HEAD + '#include "core/base/fs.h"\n'),
    ("include", "updater/fetch.c", HEAD + "#include <yyjson.h>\n", HEAD + '#include "core/privs.h"\n'),
    ("verifier_too_long", "updater/verify.c", HEAD + "\n" * 1500, HEAD + "\n" * 1400),
    *[
        ("banned_function", "core/x.c", HEAD + "void f(void)\n{\n\t%s(a, b);\n}\n" % name, HEAD + "// %s() is not here\n" % name)
        for name in lint.BANNED
    ],
    ("banned_function", "core/x.c", HEAD + "int x = strcpy (a, b);\n", HEAD + 'const char *s = "strcpy(a)";\n'),
    ("banned_function", "core/x.c", HEAD + "x = system(a);\n", HEAD + "x = p->system(a) + my_system(a);\n"),
    ("unbounded_scan", "core/x.c", HEAD + 'sscanf(a, "%s", b);\n', HEAD + 'sscanf(a, "%15s %d", b, &c);\n'),
    ("unbounded_scan", "core/x.c", HEAD + 'sscanf(a, "%[a-z]", b);\n', HEAD + 'sscanf(a, "%15[a-z]", b);\n'),
    ("too_long", "core/x.c", HEAD + "\n" * 800, HEAD + "\n" * 798),
    ("too_wide", "core/x.c", HEAD + "// " + "x" * 118 + "\n", HEAD + "// " + "x" * 117 + "\n"),
    ("too_wide", "tests/unit/x.c", HEAD + "// " + "x" * 138 + "\n", HEAD + "// " + "x" * 137 + "\n"),
    ("trailing_whitespace", "README.md", "a \n", "a\n"),
    ("final_newline", "README.md", "a", "a\n"),
    ("final_newline", "README.md", "a\n\n", "a\n"),
    ("leftover", "core/x.c", HEAD + "// TO" + "DO: later\n", HEAD + "// nothing left to do\n"),
    ("spdx", "core/x.c", "// Room: test.\n", HEAD),
    ("spdx", "bpf/x.h", HEAD, BPF_HEAD),
    ("spdx", "tests/run", "#!/bin/bash\n", "#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\n"),
    ("opening_comment", "core/x.c", "// SPDX-License-Identifier: Apache-2.0\n#include <a.h>\n", HEAD),
    ("opening_comment", "core/x.c", HEAD + "// more\n" * 12, HEAD + "// more\n" * 9),
    ("binary", "core/tool", b"\x7fELF\0\0", b"text\n"),
    ("binary", "tests/data/x.gz", b"\x7fELF\0\0", b"\x1f\x8b\0\0"),
    ("document_path", "README.md", "See `core/nothing.c`.\n", "See `README.md` and `core/*.c`.\n"),
    ("document_path", "README.md", "Run `./start.sh`.\n", "Run `./README.md`.\n"),
    ("registry_host", "build.sh", "curl %s\n" % HOST, "apt-get update\n"),
    ("machine_path", "build.sh", "cd %s\n" % HOME, "cd /usr/share\n"),
]


def found(name, path, data):
    tree = lint.Tree({path: data if isinstance(data, bytes) else data.encode()})
    return [f for f in lint.check(tree) if f[2] == name]


def main():
    failed = 0
    for name, path, bad, good in CASES:
        if not found(name, path, bad):
            print("lint selftest: %s does not fire on %s: %r" % (name, path, bad[-60:]))
            failed += 1
        if found(name, path, good):
            print("lint selftest: %s fires wrongly on %s: %s" % (name, path, found(name, path, good)))
            failed += 1
    for name in sorted(set(lint.RULES) - {case[0] for case in CASES}):
        print("lint selftest: no case for the rule %s" % name)
        failed += 1
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bad.sh").write_text("#!/bin/sh\necho $1\n")
        if not lint.shellcheck(folder, lint.Tree({"bad.sh": b"#!/bin/sh\necho $1\n"})):
            print("lint selftest: shellcheck does not fire on an unquoted variable")
            failed += 1
    print("lint selftest: %d cases, %d failed" % (len(CASES) + 1, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
