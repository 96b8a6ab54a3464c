// SPDX-License-Identifier: Apache-2.0
// Rollout: which of the verified releases this host takes, and when. Everything here only says no; what it says depends
// on signed data, the administrator's words and this host's own memory, never on a mirror.
#include "updater/rollout.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

int rollout_of(const struct tuf_target *target, struct rollout *ret_rollout)
{
	yyjson_val *said = yyjson_obj_get(target->custom, "rollout"), *percent = yyjson_obj_get(said, "percent"),
		   *halt = yyjson_obj_get(said, "halt");
	struct rollout rollout = {.percent = 100};

	if (said && !yyjson_is_obj(said))
		return -EBADMSG;
	if ((percent && !yyjson_is_uint(percent)) || (halt && !yyjson_is_bool(halt)))
		return -EBADMSG;
	if (percent)
		rollout.percent = yyjson_get_uint(percent);
	rollout.halt = yyjson_get_bool(halt);
	if (rollout.percent > 100)
		return -EBADMSG;
	*ret_rollout = rollout;
	return 0;
}

static uint64_t hash(const char *host_id, const char *salt)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state state;
	uint64_t number = 0;

	crypto_hash_sha256_init(&state);
	// The NUL between: "a" and "bc" are not "ab" and "c".
	crypto_hash_sha256_update(&state, (const unsigned char *)host_id, strlen(host_id) + 1);
	crypto_hash_sha256_update(&state, (const unsigned char *)salt, strlen(salt));
	crypto_hash_sha256_final(&state, digest);
	for (int i = 0; i < 8; i++)
		number = number << 8 | digest[i];
	return number;
}

unsigned rollout_place(const char *host_id, const char *version)
{
	return (unsigned)(hash(host_id, version) % ROLLOUT_PLACES);
}

uint64_t rollout_jitter_s(const char *host_id, uint64_t max_s)
{
	return max_s ? hash(host_id, "jitter") % max_s : 0;
}

// ---- which -------------------------------------------------------------------------------------------------------

static const char *text_of(yyjson_val *object, const char *member)
{
	const char *text = yyjson_get_str(yyjson_obj_get(object, member));

	return text ? text : "";
}

// Fills why and is false; true: the host takes it.
static bool decide(const struct rollout_policy *policy, const struct tuf_target *target, const char *version,
		   char why[ROLLOUT_WHY_SIZE])
{
	const struct update_bad *bad;
	const char *pin = policy->pin;
	char name[VERSIONS_NAME_SIZE];
	struct rollout rollout;

	snprintf(name, sizeof(name), "%s%s", policy->prefix, version);
	bad = update_state_bad(policy->state, name, text_of(target->hashes, "sha256"));
	if (*pin && strcmp(pin, version) != 0)
		snprintf(why, ROLLOUT_WHY_SIZE, "%s is pinned here; --unpin ends that", pin);
	else if (bad)
		snprintf(why, ROLLOUT_WHY_SIZE, "it was tried here and is remembered as bad: %s", bad->reason);
	else if (rollout_of(target, &rollout) < 0)
		snprintf(why, ROLLOUT_WHY_SIZE, "what it says of its rollout is not known to this version");
	else if (rollout.halt)
		snprintf(why, ROLLOUT_WHY_SIZE, "its rollout was halted by who released it");
	else if (policy->automatic && !policy->canary &&
		 rollout_place(policy->host_id, version) >= rollout.percent * (ROLLOUT_PLACES / 100))
		snprintf(why, ROLLOUT_WHY_SIZE, "it goes to %llu%% of the hosts so far, and this is none of them",
			 (unsigned long long)rollout.percent);
	else
		return true;
	return false;
}

bool rollout_takes(void *context, const struct tuf_target *target)
{
	struct rollout_policy *policy = context;
	const char *version = text_of(target->custom, "version");
	char why[ROLLOUT_WHY_SIZE];
	int order = 1;

	if (decide(policy, target, version, why))
		return true;
	if (!policy->passed[0] || tuf_version_compare(version, policy->passed, &order) < 0 || order > 0) {
		snprintf(policy->passed, sizeof(policy->passed), "%s", version);
		memcpy(policy->why, why, sizeof(why));
	}
	return false;
}

// ---- when --------------------------------------------------------------------------------------------------------

static int day_parse(const char **at)
{
	static const char names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

	for (int day = 0; day < 7; day++)
		if (strncasecmp(*at, names[day], 3) == 0) {
			*at += 3;
			return day;
		}
	return -EINVAL;
}

static int days_parse(const char **at, unsigned *ret_days)
{
	unsigned days = 0;

	for (;;) {
		int first = day_parse(at), last = first;

		if (first >= 0 && **at == '-') {
			++*at;
			last = day_parse(at);
		}
		if (first < 0 || last < 0)
			return -EINVAL;
		for (int day = first;; day = (day + 1) % 7) {
			days |= 1U << day;
			if (day == last)
				break;
		}
		if (**at != ',')
			break;
		++*at;
	}
	if (**at != ' ')
		return -EINVAL;
	++*at;
	*ret_days = days;
	return 0;
}

static int minute_parse(const char **at)
{
	unsigned hour, minute;
	int length = 0;

	if (sscanf(*at, "%2u:%2u%n", &hour, &minute, &length) != 2 || length != 5 || hour > 23 || minute > 59)
		return -EINVAL;
	*at += length;
	return (int)(hour * 60 + minute);
}

int rollout_window_parse(const char *text, struct rollout_window *ret_window)
{
	struct rollout_window window = {.days = 0x7f};

	if (*text && (*text < '0' || *text > '9') && days_parse(&text, &window.days) < 0)
		return -EINVAL;
	if (*text) {
		window.from_min = minute_parse(&text);
		if (window.from_min < 0 || *text++ != '-')
			return -EINVAL;
		window.to_min = minute_parse(&text);
		if (window.to_min < 0 || *text)
			return -EINVAL;
	}
	*ret_window = window;
	return 0;
}

bool rollout_window_open(const struct rollout_window *window, const struct tm *local)
{
	int now = local->tm_hour * 60 + local->tm_min;
	bool today = window->days >> local->tm_wday & 1, yesterday = window->days >> (local->tm_wday + 6) % 7 & 1;

	if (window->from_min == window->to_min)
		return today;
	if (window->from_min < window->to_min)
		return today && now >= window->from_min && now < window->to_min;
	return (today && now >= window->from_min) || (yesterday && now < window->to_min);
}
