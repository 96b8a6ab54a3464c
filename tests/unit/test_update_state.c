// SPDX-License-Identifier: Apache-2.0
// What the updater remembers and how versions are kept: written, read back, cut anywhere, filled to the brim. Kills and
// power cuts are in tests/fault/test_update.py.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "updater/state.h"

static char place[] = "/tmp/tracer-update-state-XXXXXX";

static int make_place(void **state)
{
	(void)state;
	return mkdtemp(place) ? 0 : -1;
}

static void path_of(char out[PATH_MAX], const char *name)
{
	snprintf(out, PATH_MAX, "%s/%s", place, name);
}

static int remove_place(void **state)
{
	static const char *const files[] = {UPDATE_STATE_FILE,
					    UPDATE_STATE_FILE ".lock",
					    "current",
					    "previous",
					    "lock",
					    "versions/1.0/tracer",
					    "versions/1.0",
					    "versions/1.1/tracer",
					    "versions/1.1/SHA256SUMS",
					    "versions/1.1",
					    "versions",
					    ""};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		path_of(path, files[i]);
		(void)remove(path);
	}
	return access(place, F_OK) < 0 ? 0 : -1;
}

static void fill(struct update_state *state)
{
	*state = (struct update_state){.hold = true, .pin = "1.2.3"};
	update_state_add_bad(state, "1.2.4", "ab", "crashed: \"\\ \x01 \xff", 1700000000);
	assert_int_equal(update_trial_begin(&state->trial, "1.2.5", "1.2.3", "cd", 300), 0);
	state->trial.starts = 2;
	update_state_set_last(state, "apply", "on trial", "1.2.5", "", -5);
}

static void test_what_is_written_is_read(void **unused)
{
	struct update_state state, back;

	(void)unused;
	assert_int_equal(update_state_read(place, &back), 0); // no file
	assert_false(back.hold || back.trial.on || back.bad_count);
	fill(&state);
	assert_int_equal(update_state_write(place, &state), 0);
	assert_int_equal(update_state_read(place, &back), 0);
	assert_true(back.hold && back.trial.on);
	assert_string_equal(back.pin, "1.2.3");
	assert_string_equal(back.trial.previous, "1.2.3");
	assert_string_equal(back.trial.began_boot_id, state.trial.began_boot_id);
	assert_int_equal(back.trial.began_ns, state.trial.began_ns);
	assert_int_equal(back.trial.starts, 2);
	assert_int_equal(back.last.at_s, -5);
	assert_int_equal(back.bad_count, 1);
	assert_non_null(update_state_bad(&back, "1.2.4", "other"));
	assert_non_null(update_state_bad(&back, "1.9", "ab")); // the same bytes by another number
	assert_null(update_state_bad(&back, "1.9", ""));
}

// Without the flushes of fs_replace(): a thousand times.
static void overwrite(const char *path, const char *data, size_t length)
{
	CLEANUP(cleanup_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, data, length), 0);
}

static void test_damage_is_no_emptiness(void **unused)
{
	CLEANUP(buf_free) struct buf whole = BUF_INIT;
	struct update_state state, back = {.hold = false};
	char path[PATH_MAX];

	(void)unused;
	fill(&state);
	assert_int_equal(update_state_write(place, &state), 0);
	path_of(path, UPDATE_STATE_FILE);
	assert_int_equal(fs_read(path, 65536, &whole), 0);
	snprintf(back.pin, sizeof(back.pin), "kept");
	for (size_t length = 0; length + 1 < whole.length; length++) {
		overwrite(path, whole.data, length);
		assert_int_equal(update_state_read(place, &back), -EBADMSG);
	}
	assert_string_equal(back.pin, "kept");
	for (size_t at = 0; at < whole.length; at++) {
		char was = whole.data[at];

		whole.data[at] ^= 0x20;
		overwrite(path, whole.data, whole.length);
		(void)update_state_read(place, &back); // whatever it says, within bounds
		whole.data[at] = was;
	}
}

static void test_the_oldest_bad_one_goes(void **unused)
{
	struct update_state state = {.hold = false}, back;
	char version[32];

	(void)unused;
	for (int i = 0; i < UPDATE_BAD_MAX + 3; i++) {
		snprintf(version, sizeof(version), "1.%d", i);
		update_state_add_bad(&state, version, "", "x", i);
	}
	assert_int_equal(update_state_write(place, &state), 0);
	assert_int_equal(update_state_read(place, &back), 0);
	assert_int_equal(back.bad_count, UPDATE_BAD_MAX);
	assert_null(update_state_bad(&back, "1.2", ""));
	assert_non_null(update_state_bad(&back, "1.3", ""));
	assert_non_null(update_state_bad(&back, version, ""));
}

static void write_program(const char *version)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/versions/%s", place, version);
	assert_int_equal(fs_make_directories(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/versions/%s/tracer", place, version);
	assert_int_equal(fs_replace(path, "#!", 2, 0755), 0);
}

static void test_versions(void **unused)
{
	struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE], name[VERSIONS_NAME_SIZE], path[PATH_MAX];
	int fd;

	(void)unused;
	assert_int_equal(versions_open(place, &versions, why), -ENOENT);
	write_program("1.0");
	assert_int_equal(versions_open(place, &versions, why), 0);
	assert_int_equal(versions_lock(&versions, why), 0);
	assert_int_equal(versions_named(&versions, VERSIONS_CURRENT, name), -ENOENT);
	assert_int_equal(versions_tidy(&versions), -ENOENT); // nothing goes while it is not known what runs
	assert_int_equal(versions_point(&versions, "1.0"), 0);
	assert_int_equal(versions_back(&versions, name), -ENOENT);
	assert_int_equal(versions_point(&versions, "1.1"), -ENOENT);
	assert_int_equal(versions_stage(&versions, "../1.1", &fd), -EINVAL);
	assert_int_equal(versions_stage(&versions, "1.1", &fd), 0);
	assert_int_equal(fs_write_all(fd, "#!", 2), 0);
	assert_int_equal(versions_whole(&versions, "1.1"), -ENOENT); // has no name yet
	assert_int_equal(versions_stage_end(&versions, "1.1", fd, "sums\n", why), 0);
	assert_int_equal(versions_point(&versions, "1.1"), 0);
	assert_int_equal(versions_tidy(&versions), 0);
	assert_int_equal(versions_whole(&versions, "1.0"), 0);
	assert_int_equal(versions_back(&versions, name), 0);
	assert_string_equal(name, "1.0");
	assert_int_equal(versions_named(&versions, VERSIONS_PREVIOUS, name), -ENOENT);
	// A pointer that somebody bent is not followed.
	path_of(path, "current");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("versions/../../etc/tracer", path), 0);
	assert_int_equal(versions_named(&versions, VERSIONS_CURRENT, name), -EBADMSG);
	versions_close(&versions);
	versions_close(&versions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_damage_is_no_emptiness),
		cmocka_unit_test(test_the_oldest_bad_one_goes),
		cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests(tests, make_place, remove_place);
}
