// SPDX-License-Identifier: Apache-2.0
// `tracer up --demo`: the pipeline that is built in, under the collector and the datalake of this directory. Its report
// comes from the datalake, once the spool says that nothing of it is on its way any more.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "cli/command.h"
#include "cli/up.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/log.h"
#include "core/embedded.h"
#include "core/status.h"

#define MS UINT64_C(1000000)

static const uint64_t ARRIVE_NS = 60000 * MS;
static const uint64_t READY_NS = 30000 * MS;
static const uint64_t QUIET_NS = 1500 * MS; // longer than the collector holds a record back

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "tracer up: %s: %s\n", what, why);
	return EXIT_REFUSED;
}

// The pipeline's files, so that the demo needs nothing but this program.
static int unpack(const char *directory)
{
	char path[UP_PATH_SIZE + 64];
	int result;

	snprintf(path, sizeof(path), "%s/demo", directory);
	result = fs_make_directories(path, 0755);
	for (size_t i = 0; !result && i < embedded_demo_count; i++) {
		snprintf(path, sizeof(path), "%s/demo/%s", directory, embedded_demo[i].name);
		result = fs_replace(path, embedded_demo[i].data, embedded_demo[i].size, 0755);
	}
	return result;
}

// What the collector's spool says: 0 and its numbers, -EAGAIN while it does not answer.
static int spool_ask(const struct up *up, uint64_t *ret_accepted, uint64_t *ret_pending)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	yyjson_doc *doc;
	yyjson_val *spool;

	if (status_fetch(up->socket, 2000 * MS, &text) < 0)
		return -EAGAIN;
	doc = yyjson_read(text.data, text.length, 0);
	spool = yyjson_obj_get(yyjson_doc_get_root(doc), "spool");
	*ret_accepted = yyjson_get_uint(yyjson_obj_get(spool, "accepted"));
	*ret_pending = yyjson_get_uint(yyjson_obj_get(spool, "pending"));
	yyjson_doc_free(doc);
	return spool ? 0 : -EAGAIN;
}

static void pause_ms(unsigned int ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

static bool collect_wait_ready(const struct up *up)
{
	uint64_t until_ns = clock_boot_ns() + READY_NS, accepted, pending;

	while (up->collect > 0 && clock_boot_ns() < until_ns) {
		if (spool_ask(up, &accepted, &pending) == 0 && accepted > 0)
			return true;
		pause_ms(50);
	}
	return false;
}

// All that was accepted a moment after the pipeline's end is delivered. Records of other programs go on coming, so the
// number is fixed once.
static bool wait_arrived(const struct up *up)
{
	uint64_t until_ns = clock_boot_ns() + ARRIVE_NS, accepted = 0, pending = 0, target = 0;

	pause_ms(QUIET_NS / MS);
	while (clock_boot_ns() < until_ns) {
		if (spool_ask(up, &accepted, &pending) == 0) {
			target = target ? target : accepted;
			if (accepted - pending >= target)
				return true;
		}
		pause_ms(50);
	}
	return false;
}

// As a person would: typed into a shell, below which a run begins (rules/hosts.yaml).
static int pipeline_run(struct up *up)
{
	char path[UP_PATH_SIZE + 64], typed[UP_PATH_SIZE + 64];
	struct up_words shell = {0};
	int result, input;

	snprintf(path, sizeof(path), "%s/typed", up->directory);
	snprintf(typed, sizeof(typed), "'%s/demo/pipeline.sh'\n", up->directory);
	result = fs_replace(path, typed, strlen(typed), 0644);
	if (result < 0)
		return result;
	input = open(path, O_RDONLY | O_CLOEXEC);
	if (input < 0)
		return -errno;
	up_word(&shell, "/bin/sh");
	up->input = input;
	result = up_run(up, &shell, NULL);
	up->input = -1;
	close(input);
	return result;
}

int up_demo(struct up *up)
{
	struct up_words show = {0};
	int result = unpack(up->directory);

	if (result < 0)
		return fail(up->directory, strerror(-result));
	if (!collect_wait_ready(up))
		return fail("the collector", "it records nothing after 30 s");
	result = pipeline_run(up);
	if (up->interrupted)
		return EXIT_OK;
	if (result != 0)
		log_warn("the pipeline ended with exit code %d", result);
	if (!wait_arrived(up))
		return fail("the datalake", "not all of the pipeline has arrived after 60 s");
	up_word(&show, "tracer");
	up_word(&show, "show");
	up_word(&show, "pipeline.sh");
	up_word(&show, "--store");
	up_word(&show, up->lake);
	printf("\nFrom the datalake, %s:\n\n", up->url);
	result = up_run(up, &show, NULL);
	return result == 0 ? EXIT_OK : EXIT_NO;
}
