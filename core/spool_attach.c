// SPDX-License-Identifier: Apache-2.0
// Spool: taking over a directory. Whatever a crash, a full disk or a stray hand left there, this counts it, seals it
// and goes on behind it; it never repairs in place and never gives a sequence number that may have been used.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/spool_writer.h"

// The first 64 bits of the kernel's boot id; 0 when it cannot be read, which no earlier boot equals by chance.
static uint64_t boot_read(void)
{
	struct buf text = BUF_INIT;
	uint64_t boot = 0;
	int digits = 0;

	if (fs_read("/proc/sys/kernel/random/boot_id", 64, &text) == 0)
		for (size_t i = 0; i < text.length && digits < 16; i++) {
			const char *hex = "0123456789abcdef", *at = strchr(hex, text.data[i]);

			if (!at || text.data[i] == '\0')
				continue;
			boot = boot << 4 | (uint64_t)(at - hex);
			digits++;
		}
	buf_free(&text);
	return boot;
}

static uint64_t epoch_draw(void)
{
	uint64_t epoch;

	if (getrandom(&epoch, sizeof(epoch), GRND_NONBLOCK) != sizeof(epoch))
		epoch = clock_real_ns() ^ (uint64_t)getpid() << 40;
	return epoch;
}

static void close_and_forget(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void spool_detach(struct spool *spool)
{
	spool_sync_drain(&spool->sync);
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		close_and_forget(&spool->lane[class].fd);
		spool->lane[class].dirty_first = 0;
		spool_lane_free(&spool->lane[class].files);
	}
	close_and_forget(&spool->state_fd);
	close_and_forget(&spool->lock_fd);
	close_and_forget(&spool->dir_fd);
	spool->bytes = 0;
	spool->attached = false;
	spool->base = spool->state.accepted;
}

static int directory_open(struct spool *spool)
{
	int result = fs_make_directories(spool->path, 0750);

	spool->dir_fd = open(spool->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (spool->dir_fd < 0)
		return result < 0 ? result : -errno;
	spool->lock_fd = openat(spool->dir_fd, SPOOL_LOCK_FILE,
				O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0640);
	if (spool->lock_fd < 0)
		return -errno;
	if (flock(spool->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	spool->state_fd = openat(spool->dir_fd, SPOOL_STATE_FILE,
				 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0640);
	return spool->state_fd < 0 ? -errno : 0;
}

// A segment that was counted as dropped but, killed in between, not unlinked.
static void finish_drop(int dir_fd)
{
	struct spool_state state;
	char name[SPOOL_NAME_SIZE];

	if (spool_state_read(dir_fd, &state) < 0 || state.dropping_class == 0 ||
	    state.dropping_class > SPOOL_CLASS_END)
		return;
	spool_segment_name((enum spool_class)(state.dropping_class - 1), state.dropping_first,
			   name);
	unlinkat(dir_fd, name, 0);
}

// The figures of the directory and those since the start (or since the directory went away) become one.
static void figures_merge(struct spool *spool, const struct spool_survey *survey)
{
	struct spool_state *state = &spool->state;
	const struct spool_state *found = &survey->state;
	uint64_t boot = boot_read(),
		 shift = survey->highest > spool->base ? survey->highest - spool->base : 0;
	bool same = survey->state_read && (found->clean || (found->boot == boot && boot != 0));

	// Frames that waited in memory were numbered before the directory could be asked how far it had come.
	for (struct spool_ring_frame *frame = spool->ring.head; frame; frame = frame->next)
		frame->first += shift;
	state->accepted += shift;
	if (survey->state_read && !spool->known) {
		state->acked = found->acked;
		state->delivered = found->delivered;
		for (int reason = 0; reason < SPOOL_REASON_END; reason++)
			state->dropped[reason] += found->dropped[reason];
		state->unclean_starts = found->unclean_starts + !found->clean;
	}
	if (survey->state_read && found->generation > state->generation)
		state->generation = found->generation;
	if (same && (!spool->known || state->epoch == found->epoch)) {
		state->epoch = found->epoch;
		state->epoch_first = found->epoch_first;
	} else {
		state->epoch = epoch_draw();
		state->epoch_first =
			spool->ring.head ? spool->ring.head->first : state->accepted + 1;
	}
	state->boot = boot;
	state->clean = 0;
}

static void segments_take(struct spool *spool, struct spool_survey *survey)
{
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct spool_lane *files = &spool->lane[class].files;

		*files = survey->lane[class];
		survey->lane[class] = (struct spool_lane){0};
		for (size_t i = 0; i < files->count;) {
			struct spool_segment *segment = &files->segments[i];

			if (segment->bytes == 0) { // killed between creating it and its first frame
				spool_lane_unlink(spool, (enum spool_class) class, i);
				continue;
			}
			// Where it cannot be sealed (a full disk) it is walked again at the next start.
			if (!segment->sealed && !segment->unread)
				spool_segment_seal(spool->dir_fd, (enum spool_class) class,
						   segment);
			spool->bytes += segment->bytes;
			i++;
		}
	}
}

static void damage_report(struct spool *spool, const struct spool_survey *survey,
			  uint64_t highest_read)
{
	uint64_t first = survey->damage_first, last = survey->damage_last;

	if (highest_read < survey->highest) { // the end is missing
		first = first && first < highest_read ? first : highest_read + 1;
		last = survey->highest;
	}
	spool_balance(spool, first ? first : spool->state.acked + 1, last ? last : survey->highest);
}

static uint64_t survey_highest_read(const struct spool_survey *survey)
{
	uint64_t highest = 0;

	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; i < survey->lane[class].count; i++)
			if (survey->lane[class].segments[i].last > highest)
				highest = survey->lane[class].segments[i].last;
	return highest;
}

static int take_over(struct spool *spool)
{
	struct spool_survey survey = {0};
	uint64_t highest_read;
	int result;

	finish_drop(spool->dir_fd);
	result = spool_survey(spool->dir_fd, &survey);
	if (result == 0) {
		highest_read = survey_highest_read(&survey);
		figures_merge(spool, &survey);
		segments_take(spool, &survey);
		spool->known = true;
		spool_reacknowledge(spool);
		damage_report(spool, &survey, highest_read);
	}
	spool_survey_free(&survey);
	return result;
}

int spool_attach(struct spool *spool)
{
	int result = directory_open(spool);

	if (result == 0)
		result = take_over(spool);
	if (result < 0) {
		uint64_t base = spool->base;

		spool_detach(spool);
		spool->base = base;
		return result;
	}
	spool_state_write(spool);
	// Durable before the first frame is: a crash of the machine must find "not closed".
	spool_sync_submit(&spool->sync, spool->state_fd, true, spool->state.accepted + 1,
			  SPOOL_TAG_DIRECTORY);
	spool_sync_submit(&spool->sync, spool->dir_fd, false, spool->state.accepted + 1,
			  SPOOL_TAG_DIRECTORY);
	spool->attached = true;
	return 0;
}
