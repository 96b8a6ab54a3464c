// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: the table of watched pids. Invariant: a process is in the agent's table
// exactly while its entry names it. It must not read /proc.
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/fallback_private.h"

static struct watched **bucket_of(struct fallback *fallback, uint32_t pid)
{
	return &fallback->buckets[pid * 2654435761u % WATCHED_BUCKETS];
}

struct watched *watched_find(struct fallback *fallback, uint32_t pid)
{
	struct watched *watched = *bucket_of(fallback, pid);

	while (watched && watched->pid != pid)
		watched = watched->hash_next;
	return watched;
}

struct watched *watched_add(struct fallback *fallback, uint32_t pid)
{
	struct watched *watched = calloc(1, sizeof(*watched)), **bucket = bucket_of(fallback, pid);

	if (!watched)
		return NULL;
	watched->fallback = fallback;
	watched->pid = pid;
	watched->start_ticks = UNKNOWN;
	watched->pid_fd = watched->children_fd = -1;
	watched->status = -1;
	watched->scan = fallback->scan;
	watched->first_seen_ns = clock_boot_ns();
	watched->reclaim_ns = watched->compaction_ns = watched->ended_peak_rss_bytes = UNKNOWN;
	watched->maxrss_bytes = watched->maxrss_inherited_bytes = UNKNOWN;
	watched->hash_next = *bucket;
	*bucket = watched;
	watched->previous = fallback->last;
	if (fallback->last)
		fallback->last->next = watched;
	else
		fallback->first = watched;
	fallback->last = watched;
	fallback->watched_count++;
	return watched;
}

void watched_close(struct watched *watched)
{
	struct fallback *fallback = watched->fallback;

	if (watched->pid_fd >= 0) {
		loop_remove_fd(fallback->loop, watched->pid_fd);
		close(watched->pid_fd);
		fallback->descriptors--;
	}
	if (watched->children_fd >= 0) {
		close(watched->children_fd);
		fallback->descriptors--;
	}
	watched->pid_fd = watched->children_fd = -1;
}

void watched_drop(struct watched *watched)
{
	struct fallback *fallback = watched->fallback;
	struct watched **link = bucket_of(fallback, watched->pid);

	while (*link != watched)
		link = &(*link)->hash_next;
	*link = watched->hash_next;
	if (watched->previous)
		watched->previous->next = watched->next;
	else
		fallback->first = watched->next;
	if (watched->next)
		watched->next->previous = watched->previous;
	else
		fallback->last = watched->previous;
	if (fallback->cursor == watched)
		fallback->cursor = watched->next;
	watched_close(watched);
	fallback->watched_count--;
	free(watched);
}
