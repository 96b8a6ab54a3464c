// SPDX-License-Identifier: Apache-2.0
// Room correlate: which limit an OOM kill hit, from event counters along the ancestors.
// v2 (mm/memcontrol.c, mem_cgroup_oom): the event "oom" is counted in the cgroup whose limit was hit, "oom_kill" in the
// victim's, both also in every ancestor's memory.events and only there in memory.events.local. v1 counts kills in the
// victim's cgroup and failed charges (failcnt) where a limit was hit, those that reclaim then satisfied included: the
// nearest such ancestor, or where nothing is counted the nearest that was ever full, is an estimate. Several victims
// of one kill ask one after another, so a rise is remembered.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/cgroup.h"
#include "core/cgroup_private.h"

#define REMEMBER_NS 5000000000ull
#define REFRESH_NS 2000000000ull

// UINT64_MAX: the kernel does not say.
struct counts {
	uint64_t oom; // v2, this cgroup and all below
	uint64_t oom_local; // v2, this one's own limit
	uint64_t kill; // victims: v2 with all below, v1 in this one
	uint64_t failures; // v1, failed charges of memory and memory+swap
	bool full; // v1, the most that was ever used is all that is allowed
};

struct cgroup_oom_mark {
	struct counts counts;
	uint64_t failures_before; // of the refresh before the last
	uint64_t refresh_ns;
	uint64_t limit_ns; // when this cgroup's limit was last seen to be hit; 0: never
	uint64_t kill_ns;
};

static bool rose(uint64_t now, uint64_t before)
{
	return now != UINT64_MAX && before != UINT64_MAX && now > before;
}

// Less what a charge that fails was for: a huge page and a batch.
static bool is_full(int fd)
{
	uint64_t most = cgroup_number_read(fd, "memory.max_usage_in_bytes");
	uint64_t limit = cgroup_number_read(fd, "memory.limit_in_bytes");

	return most != UINT64_MAX && limit != UINT64_MAX && most + (limit >> 8) + (UINT64_C(1) << 20) >= limit;
}

// -ENODATA when none of the counters is there: no such directory, or the root, which has no limit.
static int read_counts(const struct cgroup_table *table, const struct cgroup *cgroup, struct counts *ret_counts)
{
	struct counts counts = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, false };
	char text[1024];
	bool unified;
	CLEANUP(cleanup_close) int fd = cgroup_open_directory(table, cgroup, "memory", &unified);

	if (fd < 0)
		return -ENODATA;
	if (unified) {
		if (cgroup_file_read(fd, "memory.events", text, sizeof(text)) < 0)
			return -ENODATA;
		counts.oom = text_key_number(text, "oom");
		counts.kill = text_key_number(text, "oom_kill");
		if (cgroup_file_read(fd, "memory.events.local", text, sizeof(text)) >= 0)
			counts.oom_local = text_key_number(text, "oom");
	} else {
		uint64_t swap = cgroup_number_read(fd, "memory.memsw.failcnt");

		if (cgroup_file_read(fd, "memory.oom_control", text, sizeof(text)) < 0)
			return -ENODATA;
		counts.kill = text_key_number(text, "oom_kill");
		counts.failures = cgroup_number_read(fd, "memory.failcnt");
		if (counts.failures != UINT64_MAX && swap != UINT64_MAX)
			counts.failures += swap;
		counts.full = is_full(fd);
	}
	*ret_counts = counts;
	return 0;
}

static bool limit_hit(const struct cgroup_oom_mark *mark, const struct counts *counts)
{
	if (counts->oom_local != UINT64_MAX)
		return rose(counts->oom_local, mark->counts.oom_local);
	return rose(counts->oom, mark->counts.oom) || rose(counts->failures, mark->failures_before);
}

void cgroup_oom_watch(struct cgroup_table *table, struct cgroup *cgroup)
{
	struct cgroup_oom_mark *mark = cgroup->oom;
	uint64_t now = clock_boot_ns();
	struct counts counts;

	if ((mark && now - mark->refresh_ns < REFRESH_NS) || read_counts(table, cgroup, &counts))
		return;
	if (!mark) {
		mark = calloc(1, sizeof(*mark));
		if (!mark)
			return; // the answer will be "not known"
		mark->failures_before = counts.failures;
		cgroup->oom = mark;
	} else {
		// A failed charge alone is no kill; on v2 the event is.
		if (counts.oom != UINT64_MAX && limit_hit(mark, &counts))
			mark->limit_ns = now;
		if (rose(counts.kill, mark->counts.kill))
			mark->kill_ns = now;
		mark->failures_before = mark->counts.failures;
	}
	mark->counts = counts;
	mark->refresh_ns = now;
}

static bool recent(uint64_t then, uint64_t now)
{
	return then && now - then < REMEMBER_NS;
}

struct question {
	const struct cgroup *limit; // the nearest whose limit was hit
	struct cgroup *unreadable; // the last level that could not be read
	uint32_t unreadable_count;
	bool killed; // the nearest level that counts victims counted one
	bool kill_known;
};

// One level, from the victim's upwards.
static void ask_level(struct cgroup_table *table, struct cgroup *cgroup, uint64_t now, struct question *question)
{
	struct cgroup_oom_mark *mark = cgroup->oom;
	struct counts counts;

	if (read_counts(table, cgroup, &counts)) {
		if (!cgroup->parent)
			return; // the root
		question->unreadable = cgroup;
		question->unreadable_count++;
		if (!question->limit && mark && recent(mark->limit_ns, now))
			question->limit = cgroup;
		return;
	}
	if (!mark) {
		cgroup_oom_watch(table, cgroup);
		return;
	}
	bool hit = limit_hit(mark, &counts);
	// Counted here, by nobody's own limit that can be read: it was the one whose directory is gone.
	bool below = !hit && counts.oom_local != UINT64_MAX && rose(counts.oom, mark->counts.oom);

	if (hit)
		mark->limit_ns = now;
	if (rose(counts.kill, mark->counts.kill))
		mark->kill_ns = now;
	mark->counts = counts;
	mark->failures_before = counts.failures;
	mark->refresh_ns = now;
	if (!question->kill_known && counts.kill != UINT64_MAX) {
		question->kill_known = true;
		question->killed = recent(mark->kill_ns, now);
	}
	if (question->limit)
		return;
	if (below && question->unreadable_count == 1) {
		question->limit = question->unreadable;
		if (question->unreadable->oom)
			question->unreadable->oom->limit_ns = now;
	} else if (recent(mark->limit_ns, now)) {
		question->limit = cgroup;
	} else if (question->killed && counts.full && !counts.failures) {
		question->limit = cgroup; // some kernels count no failed charge at all (6.18)
	}
}

int cgroup_oom_limit(struct cgroup_table *table, struct cgroup *cgroup, const char **ret_path)
{
	struct question question = { 0 };
	uint64_t now = clock_boot_ns();

	for (struct cgroup *level = cgroup; level; level = level->parent)
		ask_level(table, level, now, &question);
	if (question.limit)
		*ret_path = question.limit->path;
	else if (question.killed)
		*ret_path = "host";
	else
		return -ENODATA;
	return 0;
}
