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

# storm LEAST ARG...: 200 processes and an exit code under 'tracer run ARG...', by PREFIX if set; at
# least LEAST process records must come of it.
storm() {
	least=$1
	shift
	rc=0
	# shellcheck disable=SC2016,SC2086  # the inner shell expands it; PREFIX is a list of words
	$PREFIX tracer run "$@" -o /tmp/out.ndjson -- \
		sh -c 'i=0; while [ $i -lt 200 ]; do /bin/busybox true; i=$((i + 1)); done; sleep 0.3; exit 7' || rc=$?
	[ "$rc" = 7 ] || { echo "exit code $rc, the command's was 7"; return 1; }
	count=$(grep -c '"kind":"process"' /tmp/out.ndjson)
	echo "$count process records"
	rm -f /tmp/out.ndjson
	[ "$count" -ge "$least" ]
}

# check_storm NAME LEAST ARG...
check_storm() {
	name=$1
	shift
	if storm "$@" >/tmp/storm.log 2>&1; then
		passed=$((passed + 1))
		echo "guest: ok $name: $(grep 'process records' /tmp/storm.log)"
	else
		failed=$((failed + 1))
		echo "guest: FAILED $name"
		cat /tmp/storm.log
	fi
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
PREFIX=''
check_storm 'storm' 201
check_storm 'storm by netlink events' 201 --source events
# Only what lives long enough can be seen in /proc: the shell and its sleep.
check_storm 'storm by /proc' 1 --source proc
check clock_jumps clock_jumps tracer
chmod 1777 /tmp
PREFIX='as_nobody'
check_storm 'storm as nobody' 1
echo "guest: $passed passed, $failed failed"
