// SPDX-License-Identifier: Apache-2.0
// The updater's guard: what it sees of the collector, from the status socket and its processes, and what it keeps of
// that. Judges nothing and changes nothing of the collector's.
#include "cli/update_guard_look.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/identity.h"
#include "cli/update_guard.h"
#include "cli/update_service.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/status.h"

enum {
	SNAPSHOT_MAX = 1 << 20,
	ASK_STOPPED_S = 3,
	MEMORY_S = 5,
};

void guard_pause_s(unsigned seconds)
{
	const struct timespec time = {.tv_sec = seconds};

	nanosleep(&time, NULL);
}

void guard_find_socket(struct guard *guard)
{
	struct collect_places places = {0};
	const char *socket = STATUS_SOCKET;

	if (collect_places_read("update", NULL, &places) == EXIT_OK && *places.status_socket)
		socket = places.status_socket;
	snprintf(guard->socket, sizeof(guard->socket), "%s", socket);
}

void update_guard_remember(const char *directory)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	CLEANUP(cleanup_close) int lock = -1;
	struct guard guard = {.directory = directory};
	struct trial_sample sample;
	char path[PATH_MAX];
	bool answered;

	guard_find_socket(&guard);
	if (snprintf(path, sizeof(path), "%s/" UPDATE_BEFORE_FILE, directory) >= (int)sizeof(path))
		return;
	answered = status_fetch(guard.socket, 5 * S, &text) == 0 && text.length <= SNAPSHOT_MAX &&
		   trial_sample_read(text.data, text.length, 0, &sample) == 0;
	if (update_state_lock(directory, &lock) < 0 || !answered ||
	    fs_replace(path, text.data, text.length, 0644) < 0)
		unlink(path);
}

bool guard_remembered(const char *directory, struct trial_sample *ret_sample)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/" UPDATE_BEFORE_FILE, directory) < (int)sizeof(path) &&
	       fs_read(path, SNAPSHOT_MAX, &text) == 0 && text.length > 0 &&
	       trial_sample_read(text.data, text.length, 0, ret_sample) == 0;
}

void guard_ask(struct guard *guard)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	uint64_t now_ns;
	struct trial_sample sample;

	guard->answered = status_fetch(guard->socket, 5 * S, &text) == 0 && text.length > 0 &&
			  trial_sample_read(text.data, text.length, clock_boot_ns(), &sample) == 0 &&
			  service_owns(guard->library, (pid_t)sample.pid);
	if (!guard->answered)
		return;
	now_ns = clock_boot_ns();
	if (now_ns - guard->memory_asked_ns >= MEMORY_S * S || guard->sample.pid != sample.pid) {
		guard->memory_asked_ns = now_ns;
		guard->memory_bytes = service_memory((pid_t)sample.pid);
	}
	if (guard->memory_bytes != UINT64_MAX &&
	    (sample.memory_bytes == UINT64_MAX || guard->memory_bytes > sample.memory_bytes))
		sample.memory_bytes = guard->memory_bytes;
	guard->sample = sample;
}

static bool process_gone(uint64_t pid)
{
	return kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

bool guard_silence_is_meant(struct guard *guard, bool gone)
{
	uint64_t now_ns = clock_boot_ns();

	if (!gone && now_ns - guard->stopped_asked_ns < ASK_STOPPED_S * S)
		return false;
	guard->stopped_asked_ns = now_ns;
	return service_is_stopped(guard->library);
}

bool guard_ended(const struct guard *guard)
{
	const struct trial_watch *watch = &guard->watch;

	if (!watch->seen)
		return false;
	if (!guard->answered)
		return process_gone(watch->latest.pid);
	return guard->sample.pid != watch->latest.pid && strcmp(guard->sample.version, guard->trial.version) == 0;
}

int guard_lock(const char *directory)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/guard.lock", directory) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	while (fd >= 0 && flock(fd, LOCK_EX) < 0)
		if (errno != EINTR) {
			close(fd);
			return -EIO;
		}
	return fd < 0 ? -errno : fd;
}
