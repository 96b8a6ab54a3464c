#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside the guest: every static BPF test, then the whole binary on a storm of known processes.
# Closes with 'guest: N passed, N failed', which tests/vm/run waits for.

passed=0
failed=0

check() { # NAME CMD...
	name=$1
	shift
	if timeout 240 "$@" >/tmp/log 2>&1; then
		passed=$((passed + 1))
		echo "guest: ok $name"
	else
		echo "guest: FAILED $name ($?)"
		tail -40 /tmp/log
		failed=$((failed + 1))
	fi
}

storm() {
	rc=0
	# shellcheck disable=SC2016  # the inner shell expands it
	tracer run -o /tmp/out.ndjson -- sh -c 'i=0; while [ $i -lt 200 ]; do /bin/busybox true; i=$((i + 1)); done; exit 7' || rc=$?
	[ "$rc" = 7 ] || { echo "exit code $rc, the command's was 7"; return 1; }
	count=$(grep -c '"kind":"process"' /tmp/out.ndjson)
	echo "$count process records"
	[ "$count" -ge 201 ] || { grep -v '"kind":"process"' /tmp/out.ndjson | head -20; return 1; }
}

echo "guest: kernel $(uname -r)"
check can_bpf can_bpf
for object in /bpf/*.bpf.o; do
	check "load ${object##*/}" load_bpf "$object"
done
for t in /tests/bpf/test_*; do
	[ -x "$t" ] && check "${t##*/}" "$t"
done
check version tracer version
tracer doctor 2>&1 | sed 's/^/guest: doctor: /'
storm >/tmp/storm.log 2>&1
rc=$?
cat /tmp/storm.log
check storm test "$rc" = 0
echo "guest: $passed passed, $failed failed"
