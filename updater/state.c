// SPDX-License-Identifier: Apache-2.0
// The updater's memory on this host. Written by temporary file, fsync, rename and fsync of the directory; read with
// every length checked. A damaged file is said to be damaged, never taken for an empty one.
#include "updater/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"

enum { FILE_MAX = 256 << 10 };

// What is replaced under the lock.
static const char *const files[] = {UPDATE_STATE_FILE, UPDATE_BEFORE_FILE, UPDATE_ASKED_FILE};

static int path_of(const char *directory, const char *name, char out[PATH_MAX])
{
	return (size_t)snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int update_state_lock(const char *directory, int *ret_fd)
{
	char path[PATH_MAX];
	int result = path_of(directory, UPDATE_STATE_FILE ".lock", path), fd;

	if (result < 0)
		return result;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0) {
		if (errno == EINTR)
			continue;
		result = -errno;
		close(fd);
		return result;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		fs_replace_tidy(directory, files[i]);
	*ret_fd = fd;
	return 0;
}

// ---- reading -------------------------------------------------------------------------------------------------------

// Absent or null is "". false: no text, or too long.
static bool take_text(yyjson_val *object, const char *key, char *out, size_t size)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	if (!value || yyjson_is_null(value)) {
		out[0] = 0;
		return true;
	}
	return yyjson_is_str(value) && (size_t)snprintf(out, size, "%s", yyjson_get_str(value)) < size;
}

static bool take_number(yyjson_val *object, const char *key, uint64_t *out)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	*out = yyjson_get_uint(value);
	return yyjson_is_uint(value);
}

static bool take_time(yyjson_val *object, const char *key, int64_t *out)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	*out = yyjson_get_sint(value);
	return yyjson_is_int(value);
}

#define TAKE(object, key, place) take_text(object, key, place, sizeof(place))

static bool take_bad(yyjson_val *list, struct update_state *state)
{
	size_t at, count;
	yyjson_val *entry;

	if (!yyjson_is_arr(list) || yyjson_arr_size(list) > UPDATE_BAD_MAX)
		return false;
	yyjson_arr_foreach(list, at, count, entry) {
		struct update_bad *bad = &state->bad[state->bad_count++];

		if (!TAKE(entry, "version", bad->version) || !TAKE(entry, "sha256", bad->sha256) ||
		    !TAKE(entry, "reason", bad->reason) || !take_time(entry, "at", &bad->at_s))
			return false;
	}
	return true;
}

static bool take_trial(yyjson_val *object, struct update_trial *trial)
{
	if (!object || yyjson_is_null(object))
		return true;
	trial->on = true;
	return TAKE(object, "version", trial->version) && TAKE(object, "previous", trial->previous) &&
	       TAKE(object, "sha256", trial->sha256) && TAKE(object, "began_boot_id", trial->began_boot_id) &&
	       take_number(object, "began_ns", &trial->began_ns) &&
	       take_number(object, "deadline_s", &trial->deadline_s) && take_number(object, "starts", &trial->starts);
}

static bool take_last(yyjson_val *object, struct update_last *last)
{
	if (yyjson_is_null(object))
		return true;
	return TAKE(object, "action", last->action) && TAKE(object, "outcome", last->outcome) &&
	       TAKE(object, "version", last->version) && TAKE(object, "reason", last->reason) &&
	       take_time(object, "at", &last->at_s);
}

int update_state_read(const char *directory, struct update_state *ret_state)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	struct update_state state = {.hold = false};
	char path[PATH_MAX];
	int result = path_of(directory, UPDATE_STATE_FILE, path);
	yyjson_doc *doc;
	yyjson_val *root;
	bool fine;

	if (result == 0)
		result = fs_read(path, FILE_MAX, &bytes);
	if (result == -ENOENT) {
		*ret_state = state;
		return 0;
	}
	if (result < 0)
		return result == -EFBIG ? -EBADMSG : result;
	doc = yyjson_read(bytes.data ? bytes.data : "", bytes.length, 0);
	root = yyjson_doc_get_root(doc);
	state.hold = yyjson_get_bool(yyjson_obj_get(root, "hold"));
	fine = yyjson_is_obj(root) && yyjson_is_bool(yyjson_obj_get(root, "hold")) && TAKE(root, "pin", state.pin) &&
	       take_bad(yyjson_obj_get(root, "bad"), &state) &&
	       take_trial(yyjson_obj_get(root, "trial"), &state.trial) &&
	       take_trial(yyjson_obj_get(root, "rules_trial"), &state.rules_trial) &&
	       TAKE(root, "rules_folder", state.rules_folder) &&
	       take_last(yyjson_obj_get(root, "last"), &state.last);
	yyjson_doc_free(doc);
	if (!fine)
		return -EBADMSG;
	*ret_state = state;
	return 0;
}

// ---- writing -------------------------------------------------------------------------------------------------------

static void put_text(struct json *json, const char *key, const char *text)
{
	json_put_string(json, key, text[0] ? text : NULL);
}

static void put_trial(struct json *json, const char *key, const struct update_trial *trial)
{
	if (!trial->on) {
		json_put_null(json, key);
		return;
	}
	json_key(json, key);
	json_open_object(json);
	put_text(json, "version", trial->version);
	put_text(json, "previous", trial->previous);
	put_text(json, "sha256", trial->sha256);
	put_text(json, "began_boot_id", trial->began_boot_id);
	json_put_u64(json, "began_ns", trial->began_ns);
	json_put_u64(json, "deadline_s", trial->deadline_s);
	json_put_u64(json, "starts", trial->starts);
	json_close_object(json);
}

static void put_last(struct json *json, const struct update_last *last)
{
	if (!last->action[0]) {
		json_put_null(json, "last");
		return;
	}
	json_key(json, "last");
	json_open_object(json);
	put_text(json, "action", last->action);
	put_text(json, "outcome", last->outcome);
	put_text(json, "version", last->version);
	put_text(json, "reason", last->reason);
	json_put_i64(json, "at", last->at_s);
	json_close_object(json);
}

int update_state_write(const char *directory, const struct update_state *state)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);
	char path[PATH_MAX];
	int result = path_of(directory, UPDATE_STATE_FILE, path);

	if (result < 0)
		return result;
	json_open_object(&json);
	put_text(&json, "pin", state->pin);
	json_put_bool(&json, "hold", state->hold);
	json_key(&json, "bad");
	json_open_array(&json);
	for (size_t i = 0; i < state->bad_count; i++) {
		json_open_object(&json);
		put_text(&json, "version", state->bad[i].version);
		put_text(&json, "sha256", state->bad[i].sha256);
		put_text(&json, "reason", state->bad[i].reason);
		json_put_i64(&json, "at", state->bad[i].at_s);
		json_close_object(&json);
	}
	json_close_array(&json);
	put_trial(&json, "trial", &state->trial);
	put_trial(&json, "rules_trial", &state->rules_trial);
	put_text(&json, "rules_folder", state->rules_folder);
	put_last(&json, &state->last);
	json_close_object(&json);
	json_end_line(&json);
	result = buf_error(&text);
	return result < 0 ? result : fs_replace(path, text.data, text.length, 0644);
}

// ---- what is in it -------------------------------------------------------------------------------------------------

const struct update_bad *update_state_bad(const struct update_state *state, const char *version, const char *sha256)
{
	for (size_t i = 0; i < state->bad_count; i++) {
		const struct update_bad *bad = &state->bad[i];

		if (strcmp(bad->version, version) == 0 || (sha256 && *sha256 && strcmp(bad->sha256, sha256) == 0))
			return bad;
	}
	return NULL;
}

void update_state_add_bad(struct update_state *state, const char *version, const char *sha256, const char *reason,
			  int64_t at_s)
{
	struct update_bad *bad;

	if (state->bad_count == UPDATE_BAD_MAX) {
		memmove(&state->bad[0], &state->bad[1], sizeof(state->bad[0]) * (UPDATE_BAD_MAX - 1));
		state->bad_count--;
	}
	bad = &state->bad[state->bad_count++];
	snprintf(bad->version, sizeof(bad->version), "%s", version);
	snprintf(bad->sha256, sizeof(bad->sha256), "%s", sha256 ? sha256 : "");
	snprintf(bad->reason, sizeof(bad->reason), "%s", reason);
	bad->at_s = at_s;
}

void update_state_set_last(struct update_state *state, const char *action, const char *outcome, const char *version,
			   const char *reason, int64_t at_s)
{
	struct update_last *last = &state->last;

	snprintf(last->action, sizeof(last->action), "%s", action);
	snprintf(last->outcome, sizeof(last->outcome), "%s", outcome);
	snprintf(last->version, sizeof(last->version), "%s", version);
	snprintf(last->reason, sizeof(last->reason), "%s", reason);
	last->at_s = at_s;
}

int update_trial_begin(struct update_trial *ret_trial, const char *version, const char *previous, const char *sha256,
		       uint64_t deadline_s)
{
	CLEANUP(buf_free) struct buf boot = BUF_INIT;
	struct update_trial trial = {.on = true, .deadline_s = deadline_s};
	struct timespec now;
	int result = fs_read("/proc/sys/kernel/random/boot_id", sizeof(trial.began_boot_id), &boot);

	if (result < 0)
		return result;
	if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
		return -errno;
	snprintf(trial.began_boot_id, sizeof(trial.began_boot_id), "%.*s", (int)strcspn(boot.data, "\n"), boot.data);
	snprintf(trial.version, sizeof(trial.version), "%s", version);
	snprintf(trial.previous, sizeof(trial.previous), "%s", previous);
	snprintf(trial.sha256, sizeof(trial.sha256), "%s", sha256);
	trial.began_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	*ret_trial = trial;
	return 0;
}
