#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that each check of the verifier is tested: takes it out in a copy of the sources, builds the unit tests of the updater with
that, and runs them. A mutation that no test notices is a finding.

    tests/updater/mutate.py [--attack NAME] [--first] [--list]

Run from a tree that is built (build/deps). Prints one line for each mutation and 'N of M noticed'; exits 1 when one was not.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ("test_update", "test_update_form")
SOURCES = ("updater/canonical", "updater/metadata", "updater/signature", "updater/client", "updater/delegation", "updater/target",
           "core/base/buf", "core/base/fs")
# Of these the whole program is linked, with what is changed in front of it: they need the network's libraries.
WHOLE = {"update_target": ("cli/update_target", "test_update_target"), "fetch": ("updater/fetch", "test_update_fetch")}
FLAGS = "-std=gnu11 -O0 -w -ftrivial-auto-var-init=zero -fsanitize=address -D_GNU_SOURCE -I. -Itests/unit -isystem build/deps/host/include".split()
WHOLE_LIBS = ["build/asan/libtracer.a", *(f"build/deps/host/lib/lib{name}.a" for name in (
    "curl", "mbedtls", "mbedx509", "mbedcrypto", "sqlite3", "llhttp", "deflate", "yaml", "bpf", "elf", "z", "sodium", "yyjson")), "-lcmocka", "-lm"]
LIBS = ["build/deps/host/lib/libsodium.a", "build/deps/host/lib/libyyjson.a", "-lcmocka"]

ATTACKS = ("arbitrary install", "endless data", "extraneous dependencies", "fast-forward", "freeze", "malicious mirror", "mix-and-match",
           "rollback", "key compromise", "wrong software")
C, D, M, S, T, J = "client", "delegation", "metadata", "signature", "target", "canonical"
F, W = "fetch", "update_target"

# Attack or "" for what guards the form, file, what stands there (once), what is put in its place.
MUTATIONS = [
    ("arbitrary install", S, "crypto_sign_verify_detached(signature, (const unsigned char *)metadata->message.data,\n"
     "\t\t\t\t\t\tmetadata->message.length, key) == 0)", "key)"),
    ("arbitrary install", S, "if (count < threshold)", "if (0)"),
    ("arbitrary install", C, "result = verify(client, &fresh, TUF_TIMESTAMP);", "result = 0;"),
    ("arbitrary install", C, "result = verify(client, &fresh, TUF_SNAPSHOT);", "result = 0;"),
    ("arbitrary install", C, "result = tuf_verify(metadata, keys, role, name, client->why);", "result = 0;"),
    ("arbitrary install", C, "result = verify(client, &fresh, TUF_ROOT);", "result = 0;"),
    ("arbitrary install", C, "return result < 0 ? result : verify(client, root, TUF_ROOT);", "return result;"),
    ("arbitrary install", C, 'result = tuf_verify(&fresh, tuf_root_keys(&fresh), tuf_root_role(&fresh, TUF_ROOT), "root", why);', "result = 0;"),
    ("arbitrary install", S, "memcmp(got, check->want_256, sizeof(check->want_256)) != 0", "0"),
    ("arbitrary install", S, "memcmp(got, check->want_512, sizeof(check->want_512)) != 0", "0"),
    ("arbitrary install", S, "if (check->said != UINT64_MAX && check->got != check->said)", "if (0)"),
    ("arbitrary install", S, " ||\n\t    (!check.has_256 && !check.has_512))", ")"),
    ("arbitrary install", S, "if (length > check->said - check->got)", "if (0)"),
    ("endless data", C, "if (result == 0 && out->length > max)", "if (0)"),
    ("endless data", C, "said->length < max ? said->length : max", "max"),
    ("endless data", S, "if (length > check->said - check->got)", "if (0)"),
    ("extraneous dependencies", D, 'return yyjson_obj_get(yyjson_obj_get(metadata->body, "targets"), path);',
     'return yyjson_obj_get(yyjson_obj_get(metadata->body, "targets"), "malware");'),
    ("fast-forward", C, "if (key_withdrawn(root, &fresh, TUF_TIMESTAMP) || key_withdrawn(root, &fresh, TUF_SNAPSHOT)) {", "if (0) {"),
    ("fast-forward", C, "key_withdrawn(root, &fresh, TUF_TIMESTAMP) || ", ""),
    ("fast-forward", C, " || key_withdrawn(root, &fresh, TUF_SNAPSHOT)", ""),
    ("fast-forward", C, "result = local_forget(client, TUF_TIMESTAMP);", "result = 0;"),
    ("fast-forward", C, "result = local_forget(client, TUF_SNAPSHOT);", "result = 0;"),
    ("fast-forward", C, "if (!found)\n\t\t\treturn true;", "return true;"),
    ("freeze", C, "if (client->now_s >= metadata->expires_s)", "if (0)"),
    ("freeze", C, "if (client->now_s >= metadata->expires_s)", "if (client->now_s > metadata->expires_s)"),
    ("freeze", C, 'return check_expiry(client, &client->trusted[TUF_ROOT], "root");', "return 0;"),
    ("freeze", C, 'result = check_expiry(client, &fresh, "timestamp");', "result = 0;"),
    ("freeze", C, 'return check_expiry(client, known, "timestamp");', "return 0;"),
    ("freeze", C, 'result = check_expiry(client, &fresh, "snapshot");', "result = 0;"),
    ("freeze", C, '\t       check_expiry(client, known, "snapshot") == 0 &&\n', ""),
    ("freeze", C, "return result < 0 ? result : check_expiry(client, metadata, name);", "return result;"),
    ("freeze", C, "if (now_s < TUF_EARLIEST_S)", "if (0)"),
    ("malicious mirror", S, "crypto_sign_verify_detached(signature, (const unsigned char *)metadata->message.data,\n"
     "\t\t\t\t\t\tmetadata->message.length, key) == 0)", "key)"),
    ("malicious mirror", C, 'result = check_expiry(client, &fresh, "timestamp");', "result = 0;"),
    ("mix-and-match", C, "if (metadata->version != said->version)", "if (0)"),
    ("mix-and-match", C, 'result = check_version(client, &fresh, &said, "snapshot");', "result = 0;"),
    ("mix-and-match", C, "result = check_version(client, metadata, said, name);", "result = 0;"),
    ("mix-and-match", C, "if (tuf_check_bytes(bytes->data, bytes->length, said->length, said->hashes) < 0)", "if (0)"),
    ("mix-and-match", C, 'result = check_described(client, &bytes, &said, "snapshot");', "result = 0;"),
    ("mix-and-match", C, "int result = check_described(client, bytes, said, name);", "int result = 0;"),
    ("mix-and-match", C, ' &&\n\t       check_described(client, &bytes, said, "snapshot") == 0;', ";"),
    ("mix-and-match", M, "if (!kind || strcmp(kind, name) != 0)", "if (!kind)"),
    ("rollback", C, "if (known->doc && fresh.version < known->version)", "if (0)"),
    ("rollback", C, "if (known->doc && fresh.version == known->version)", "if (0)"),
    ("rollback", C, " && after.version < before.version)", " && 0)"),
    ("rollback", C, "result = check_snapshot_rollback(client, &fresh);", "result = 0;"),
    ("rollback", C, "if (!tuf_meta_find(fresh, yyjson_get_str(key), &after))", "if (!tuf_meta_find(fresh, yyjson_get_str(key), &after))\n\t\t\tcontinue;\n\t\tif (0)"),
    ("rollback", C, "if (after.version < before)", "if (0)"),
    ("rollback", C, "if (fresh.version != root->version + 1)", "if (0)"),
    ("rollback", C, "if (fresh.version != root->version + 1)", "if (fresh.version <= root->version)"),
    ("rollback", C, "if (result == 0 && client.trusted[TUF_ROOT].version > fresh.version)", "if (0)"),
    ("rollback", C, " &&\n\t    verify(client, &metadata, type) == 0)", ")"),
    ("key compromise", S, "if (!twice && signed_by(metadata, name, seen[count]))", "if (signed_by(metadata, name, seen[count]))"),
    ("key compromise", S, "if (count < threshold)", "if (count == 0)"),
    ("key compromise", S, " && name_is_digest(key, name);", ";"),
    ("key compromise", C, "result = verify(client, &fresh, TUF_ROOT);", "result = 0;"),
    ("key compromise", C, "result = tuf_verify(&fresh, tuf_root_keys(&fresh), tuf_root_role(&fresh, TUF_ROOT),\n"
     '\t\t\t\t    "root, by its own keys", client->why);', "result = 0;"),
    ("wrong software", T, 'if (strcmp(said(target, "product"), wanted->product) != 0)', "if (0)"),
    ("wrong software", T, 'if (strcmp(said(target, "channel"), wanted->channel) != 0)', "if (0)"),
    ("wrong software", T, 'if (strcmp(said(target, "architecture"), wanted->architecture) != 0)', "if (0)"),
    ("wrong software", T, 'if (tuf_version_compare(said(target, "version"), wanted->version, &order) < 0)',
     'order = 1;\n\tif (tuf_version_compare(said(target, "version"), wanted->version, &order) < 0 && 0)'),
    ("wrong software", T, "if (order <= 0)", "if (0)"),
    ("wrong software", T, "if (order <= 0)", "if (order < 0)"),
    ("wrong software", T, "&order) < 0 || order > 0))", "&order) < 0))"),
    ("wrong software", T, "(tuf_version_compare(said(target, \"minimum_version\"), wanted->version, &order) < 0 || order > 0)",
     "(tuf_version_compare(said(target, \"minimum_version\"), wanted->version, &order) == 0 && order > 0)"),
    ("wrong software", T, " || order <= 0))\n\t\t\tcontinue;", "))\n\t\t\tcontinue;"),
    # What guards the form.
    ("", J, "if (i > 0 && compare_keys(&keys[i - 1], &keys[i]) == 0)", "if (0)"),
    ("", J, "if (depth > CANONICAL_DEPTH)", "if (0)"),
    ("", J, "\telse\n\t\treturn -EBADMSG;\n\treturn buf_error(out);", "\treturn buf_error(out);"),
    ("", J, "qsort(keys, count, sizeof(*keys), compare_keys);", ""),
    ("", M, "result = canonical_encode(top, &whole);", "result = 0;"),
    ("", M, 'if (!specification || strncmp(specification, "1.", 2) != 0)', "if (0)"),
    ("", M, "if (!yyjson_is_uint(version) || yyjson_get_uint(version) == 0)", "if (!yyjson_is_uint(version))"),
    ("", M, "if (!yyjson_is_uint(version) || yyjson_get_uint(version) == 0)", "if (0)"),
    ("", M, " ||\n\t    strcmp(text, again) != 0)", ")"),
    ("", M, "strlen(yyjson_get_str(value)) == yyjson_get_len(value)", "1"),
    ("", M, " && yyjson_arr_size(names) <= TUF_KEYS_MAX", ""),
    ("", M, ' &&\n\t       yyjson_get_uint(yyjson_obj_get(role, "threshold")) > 0', ""),
    ("", M, "|| yyjson_obj_size(hashes) == 0", ""),
    ("", M, "yyjson_is_uint(version) && yyjson_get_uint(version) > 0 &&", ""),
    ("", M, "(!length || yyjson_is_uint(length))", "1"),
    ("", M, "if (!role_fine(yyjson_obj_get(roles, tuf_type_names[type])))", "if (0)"),
    ("", M, "if (!yyjson_obj_get(meta, needed))", "if (0)"),
    ("", M, 'if (strcmp(yyjson_get_str(name), tuf_type_names[type]) == 0)', "if (0)"),
    ("", M, " || tuf_quote(yyjson_get_str(name), false, quoted, sizeof(quoted)) < 0)", ")"),
    ("", M, "!paths != !prefixes &&", ""),
    ("", M, "(!paths || texts_fine(paths))", "1"),
    ("", M, '!yyjson_is_uint(yyjson_obj_get(value, "length")) ||', ""),
    ("", M, '!hashes_fine(yyjson_obj_get(value, "hashes")) ||', ""),
    ("", M, " || (custom && !yyjson_is_obj(custom))", ""),
    ("", M, " || yyjson_arr_size(signatures) > TUF_SIGNATURES_MAX", ""),
    ("", M, "if (!signatures_fine(metadata->signatures) ||", "if (0 ||"),
    ("", M, "if (at + 4 > size)", "if (0)"),
    ("", S, 'is(key, "keytype", "ed25519") && ', ""),
    ("", S, 'is(key, "scheme", "ed25519") && ', ""),
    ("", S, " && got == size", ""),
    ("", S, " && end == text + length", ""),
    ("", C, "i < TUF_ROTATIONS_MAX", "1"),
    ("", C, "if (flock(client->lock_fd, LOCK_EX | LOCK_NB) < 0)", "if (0)"),
    ("", D, "if (was_visited(search, next.name))", "if (0)"),
    ("", D, "if (search->visited_count == TUF_DELEGATIONS_MAX)", "if (0)"),
    ("", D, "if (search->waiting_count == WAITING_MAX)", "if (0)"),
    ("", D, "FNM_PATHNAME | FNM_NOESCAPE", "FNM_NOESCAPE"),
    ("", D, '!yyjson_get_bool(yyjson_obj_get(role, "terminating"))', "1"),
    ("", D, "\t\tif (any_matches(search, role))\n\t\t\tresult = wait_add", "\t\tif (1)\n\t\t\tresult = wait_add"),
    ("", T, "if (*text && (*text != '-' || !text[1]))", "if (0)"),
    ("", T, ' || strspn(text, "0123456789") > 9', ""),
    # The way to the disk.
    ("arbitrary install", W, "result = tuf_check_end(&staging->check);\n\treturn result < 0 ?", "return 0 ?"),
    ("arbitrary install", W, "int result = tuf_check_begin(target->length, target->hashes, &staging->check);\n\n\tif (result < 0)",
     "int result = tuf_check_begin(target->length, target->hashes, &staging->check);\n\n\tif (0)"),
    ("arbitrary install", W, "if (result < 0)\n\t\treturn result;\n\tresult = tuf_check_end", "result = tuf_check_end"),
    ("arbitrary install", W, " ||\n\t    tuf_check_begin(target->length, target->hashes, &check) < 0)",
     " ||\n\t    (tuf_check_begin(target->length, target->hashes, &check), 0))"),
    ("arbitrary install", W, "return got == 0 && tuf_check_end(&check) == 0;", "return got == 0;"),
    ("arbitrary install", W, "if (tuf_check_add(&check, data, (size_t)got) < 0)\n\t\t\treturn false;", "tuf_check_add(&check, data, (size_t)got);"),
    ("arbitrary install", W, "O_RDONLY | O_NOFOLLOW", "O_RDONLY"),
    ("arbitrary install", W, " || !S_ISREG(info.st_mode)", ""),
    ("arbitrary install", W, "*ret_was_there = is_there(file, target);", "*ret_was_there = access(file, F_OK) == 0;"),
    ("endless data", W, "if (result < 0)\n\t\treturn result;\n\tstaging->write_error", "staging->write_error"),
    ("endless data", W, "target->length, on_bytes", "UINT64_MAX, on_bytes"),
    ("", W, "| O_NONBLOCK", ""),
    ("", W, "return staging->write_error;", "return 0;"),
    ("", W, "if (staging->write_error < 0)", "if (0)"),
    ("", W, "if (result == -ENOENT)", "if (0)"),
    ("", W, "if (result == -EFBIG)", "if (0)"),
    ("", W, " || staging->write_error == -EDQUOT", ""),
    ("", W, "if (result < 0)\n\t\treturn tuf_fail(why, result, \"%s: the name is too long\", path);\n\treturn fill", "return fill"),
    ("", W, "result < 0 || (size_t)snprintf(file", "(size_t)snprintf(file"),
    ("", W, ' ||\n\t    (size_t)snprintf(part, sizeof(part), "%s/.part.XXXXXX", directory) >= sizeof(part))',
     ' || snprintf(part, sizeof(part), "%s/.part.XXXXXX", directory) < 0)'),
    ("", W, "if (fd < 0)\n\t\treturn tuf_fail(why, -errno", "if (0)\n\t\treturn tuf_fail(why, -errno"),
    ("", W, "fchmod(fd, 0644) < 0 || ", "(fchmod(fd, 0644), 0) || "),
    ("", W, " || fsync(fd) < 0", ""),
    ("", W, "if (result == 0 && rename(part, file) < 0)", "if (result == 0 && rename(part, file) < 0 && 0)"),
    ("", W, "unlink(part);", ";"),
    # The child with the network, and what is taken from it.
    ("endless data", F, "if (length > transfer->max - transfer->got)", "if (0)"),
    ("endless data", F, "transfer->got += length;", ""),
    ("endless data", F, "|| (uint64_t)length > max - taken)", ")"),
    ("endless data", F, "taken += (uint64_t)length;", ""),
    ("malicious mirror", F, "if (fetch->answer.kind != FETCH_PIECE ||", "if ("),
    ("malicious mirror", F, "answer->result > 0 || ", ""),
    ("malicious mirror", F, " || answer->result < -4095", ""),
    ("malicious mirror", F, "got < (ssize_t)ANSWER_HEAD ? -EPIPE : got - (ssize_t)ANSWER_HEAD", "got < (ssize_t)ANSWER_HEAD ? 0 : got - (ssize_t)ANSWER_HEAD"),
    ("malicious mirror", F, "if (length < 0)\n\t\t\treturn break_off(fetch, (int)length);", ""),
    ("malicious mirror", F, "fetch->broken = true;", ""),
    ("malicious mirror", F, "kill(fetch->child, SIGKILL);\n\treturn result;", "return result;"),
    ("malicious mirror", F, "if (result < 0) {\n\t\t\tsnprintf(why", "if (0) {\n\t\t\tsnprintf(why"),
    ("malicious mirror", F, 'curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");', ""),
    ("malicious mirror", F, "curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);", ""),
    ("malicious mirror", F, "curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);", ""),
    ("", F, "if (transfer->too_long)\n\t\treturn -EFBIG;", ""),
    ("", F, "(status == 404 || status == 403)", "status == 404"),
    ("", F, "code == CURLE_HTTP_RETURNED_ERROR && (status == 404 || status == 403)", "code == CURLE_HTTP_RETURNED_ERROR"),
    ("", F, ">= sizeof(request.url)) {", "< 0) {"),
    ("", F, "(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);", ";"),
    ("", F, "setgroups(0, NULL) < 0 || ", ""),
    ("", F, "setresgid(options->gid, options->gid, options->gid) < 0 ||", ""),
    ("", F, " ||\n\t     setresuid(options->uid, options->uid, options->uid) < 0)", ")"),
    ("", F, "result = privs_drop(&nothing);", "result = 0;"),
    ("", F, "result = privs_seccomp(PRIVS_FETCH);", "result = 0;"),
    ("", F, "close(other);", ";"),
]


def compile(source, out, *first):
    done = subprocess.run(["gcc", *first, *FLAGS, "-c", source, "-o", out], cwd=ROOT, capture_output=True, text=True)
    return done.stderr


def objects(folder):
    """The tests and the sources as they are, once."""
    everything = {**{name: f"{name}.c" for name in SOURCES}, **{name: f"tests/unit/{name}.c" for name in TESTS}}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        places = {name: folder / (name.replace("/", "_") + ".o") for name in everything}
        for error in pool.map(lambda name: compile(everything[name], places[name]), everything):
            if error:
                sys.exit(error)
    return places


def run(program):
    """Which test fails; None: none does."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        output, failed = done.stdout + done.stderr, done.returncode != 0
    except subprocess.TimeoutExpired:
        output, failed = "it did not end", True
    program.unlink()
    found = re.search(r"\[  FAILED  \] (\w+)", output)
    last = output.strip().splitlines()[-1][:80] if output.strip() else "crash"
    return None if not failed else found.group(1) if found else last


def link(folder, test, parts, number):
    program = folder / f"{test}.{number}"
    libs = LIBS if test in TESTS else WHOLE_LIBS
    subprocess.run(["gcc", "-fsanitize=address,undefined", *parts, *libs, "-o", program], cwd=ROOT, check=True)
    return program


def noticed(folder, places, changed, number):
    for test in TESTS:
        failed = run(link(folder, test, [places[test], *(changed.get(name, places[name]) for name in SOURCES)], number))
        if failed:
            return failed if failed.startswith("test_") else f"{test}: {failed}"
    return None


def attempt_whole(folder, stem, text, number):
    """The test includes the file that is changed, or is linked with it in front of the program."""
    name, test = WHOLE[stem]
    place = folder / str(number)
    (place / name).parent.mkdir(parents=True)
    (place / f"{name}.c").write_text(text)
    parts = [place / "test.o"] if stem == "fetch" else [place / "test.o", place / "changed.o"]
    error = compile(f"tests/unit/{test}.c", parts[0], f"-I{place}")
    if not error and stem != "fetch":
        error = compile(place / f"{name}.c", parts[1])
    if error:
        return "does not compile: " + error.strip().splitlines()[0]
    return run(link(folder, test, parts, number)) or ""


def attempt(folder, places, number):
    _, stem, old, new = MUTATIONS[number]
    name = WHOLE[stem][0] if stem in WHOLE else f"updater/{stem}"
    text = (ROOT / f"{name}.c").read_text()
    if text.count(old) != 1:
        return f"stands {text.count(old)} times in {name}.c"
    if stem in WHOLE:
        return attempt_whole(folder, stem, text.replace(old, new), number)
    source = folder / f"{number}.c"
    source.write_text(text.replace(old, new))
    error = compile(source, folder / f"{number}.o")
    if error:
        return "does not compile: " + error.strip().splitlines()[0]
    return noticed(folder, places, {name: folder / f"{number}.o"}, number) or ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attack", choices=ATTACKS, action="append")
    parser.add_argument("--first", action="store_true", help="one mutation of each attack")
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    numbers = [n for n, m in enumerate(MUTATIONS) if not chosen.attack or m[0] in chosen.attack]
    if chosen.first:
        numbers = [min(n for n in numbers if MUTATIONS[n][0] == attack) for attack in chosen.attack or ATTACKS]
    bad = 0
    with tempfile.TemporaryDirectory() as place, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(place)
        if chosen.list:
            numbers, results = [], []
            for mutation in MUTATIONS:
                print(f"{mutation[0] or 'form':24} {mutation[1]}.c: {' '.join(mutation[2].split())}")
        else:
            places = objects(folder)
            if any(MUTATIONS[number][1] in WHOLE for number in numbers):
                subprocess.run(["make", "-s", *(f"build/asan/unit/{test}" for _, test in WHOLE.values())], cwd=ROOT, check=True)
            untouched = noticed(folder, places, {}, "as-it-is") or next(filter(None, (
                attempt_whole(folder, stem, (ROOT / f"{name}.c").read_text(), f"as-it-is-{stem}") for stem, (name, _) in WHOLE.items()
                if any(MUTATIONS[number][1] == stem for number in numbers))), None)
            if untouched:
                sys.exit(f"the tests fail without a mutation: {untouched}")
            results = pool.map(lambda number: attempt(folder, places, number), numbers)
        for number, result in zip(numbers, results):
            attack, stem, old, _ = MUTATIONS[number]
            good = result and not result.startswith(("stands", "does not compile"))
            bad += not good
            print(f"{'ok ' if good else 'BAD'} {attack or 'form':24} {stem}.c: {' '.join(old.split())[:70]:70}  {result or 'NOT NOTICED'}", flush=True)
    print(f"{len(numbers) - bad} of {len(numbers)} noticed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
