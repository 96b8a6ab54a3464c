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

# value NAME: the first number of that name in the collector's status.
value() {
	tracer status --json --socket /tmp/product/status 2>/dev/null | sed -n "s/.*\"$1\":\([0-9][0-9]*\).*/\1/p" | head -1
}

# until_value NAME LEAST
until_value() {
	tries=0
	while found=$(value "$1") && [ "${found:-0}" -lt "$2" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 120 ] || { echo "$1 is $found after $tries s"; return 1; }
		sleep 1
	done
}

# Collector, streamer and datalake with all their confinement, and a hand-over between two storms of 300 processes: each of
# those comes to the datalake once, with its end, and no call was refused.
product() {
	mkdir -p /tmp/product && chmod 755 /tmp/product && cd /tmp/product || return
	umask 077
	tracer datalake token create --role ingest --store sqlite:lake >secret || return
	tracer datalake --store sqlite:lake --listen 127.0.0.1:7070 >lake.log 2>&1 &
	lake=$!
	tracer collect --spool spool --status-socket /tmp/product/status --status-processes-socket '' --stream http://127.0.0.1:7070 \
		--stream-token-file secret >collect.log 2>&1 &
	collect=$!
	until_value accepted 1 && storms exec 300 && kill -USR2 "$collect" && until_value count 1 && storms exec 300
	calls=$(value refused_calls)
	[ "$calls" = 0 ] || { tracer status --socket /tmp/product/status; cat collect.log lake.log; return 1; }
	tries=0 count=''
	while [ "$count" != 600,600 ] && [ "$tries" -lt 60 ]; do
		count=$(tracer sql --csv --store lake "SELECT count(*), count(DISTINCT pid) FROM processes WHERE exit_code = 0 AND
			cpu_ns > 0 AND args LIKE '%\"nothing\"%'" | tail -1 | tr -d '\r')
		tries=$((tries + 1))
		sleep 1
	done
	kill "$collect"
	wait "$collect" || { cat collect.log; return 1; }
	kill "$lake"
	wait "$lake" || { cat lake.log; return 1; }
	echo "in the datalake: $count of 600, no call refused"
	[ "$count" = 600,600 ]
}

[ $# = 0 ] || { "$@"; exit; }
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
check known known tracer
sed -n 's/^[0-9]* processes/guest: known: &/p' /tmp/log
check clock_jumps clock_jumps tracer
# Elsewhere the end-to-end tests do this on the machine itself.
[ "$(uname -m)" = x86_64 ] || check product sh /guest.sh product
chmod 1777 /tmp
PREFIX='as_nobody'
check_storm 'storm as nobody' 1
echo "guest: $passed passed, $failed failed"
