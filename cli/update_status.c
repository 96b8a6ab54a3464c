// SPDX-License-Identifier: Apache-2.0
// `tracer update --status`: what is trusted and until when. Reads only; a file that cannot be read is shown as such
// and hides no other.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"

enum { DAY_S = 86400 };

// The step of 30, 14, 7 and 1 days that is reached; 0: none yet. 1 also for what has expired.
static unsigned announced(int64_t left_s)
{
	static const unsigned steps[] = {1, 7, 14, 30};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (left_s <= (int64_t)steps[i] * DAY_S)
			return steps[i];
	return 0;
}

static void say(const char *name, const struct tuf_metadata *metadata, int64_t left_s)
{
	char when[32];
	struct tm parts;
	time_t expires = metadata->expires_s;

	if (!gmtime_r(&expires, &parts) || !strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &parts))
		snprintf(when, sizeof(when), "?");
	printf("%-10s version %llu, %s %s", name, (unsigned long long)metadata->version,
	       left_s > 0 ? "until" : "EXPIRED since", when);
	if (left_s > 0 && announced(left_s))
		printf(": EXPIRES in %lld days", (long long)(left_s / DAY_S));
	printf("\n");
}

static void say_json(struct json *json, const char *name, const struct tuf_metadata *metadata, int64_t left_s)
{
	json_key(json, name);
	json_open_object(json);
	json_put_u64(json, "version", metadata->version);
	json_put_i64(json, "expires_unix_s", metadata->expires_s);
	json_put_bool(json, "expired", left_s <= 0);
	json_put_u64(json, "announced_days", announced(left_s));
	json_close_object(json);
}

static int read_one(const char *directory, enum tuf_type type, struct tuf_metadata *ret_metadata,
		    char why[TUF_WHY_SIZE])
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	char path[PATH_MAX];
	int result;

	snprintf(path, sizeof(path), "%s/%s.json", directory, tuf_type_names[type]);
	result = fs_read(path, TUF_TARGETS_BYTES, &bytes);
	if (result < 0)
		return tuf_fail(why, result, "%s", strerror(-result));
	return tuf_metadata_parse(bytes.data, bytes.length, type, ret_metadata, why);
}

int update_status(const char *directory, int64_t now_s, bool as_json)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);
	char why[TUF_WHY_SIZE];
	int code = EXIT_OK;

	json_open_object(&json);
	for (int type = 0; type < TUF_TYPES; type++) {
		struct tuf_metadata metadata = {0};
		const char *name = tuf_type_names[type];
		int64_t left_s;

		if (read_one(directory, type, &metadata, why) < 0) {
			json_put_null(&json, name);
			if (!as_json)
				printf("%-10s none: %s\n", name, why);
			code = EXIT_NO;
			continue;
		}
		left_s = metadata.expires_s - now_s;
		if (left_s <= 0)
			code = EXIT_NO;
		if (as_json)
			say_json(&json, name, &metadata, left_s);
		else
			say(name, &metadata, left_s);
		tuf_metadata_free(&metadata);
	}
	json_close_object(&json);
	json_end_line(&json);
	if (as_json && buf_error(&text) == 0)
		fwrite(text.data, 1, text.length, stdout);
	return code;
}
