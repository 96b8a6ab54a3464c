// SPDX-License-Identifier: Apache-2.0
// The trial of a new version: what has to be seen of it, and for how long something may be wrong. Knows snapshots and
// times, nothing of files, processes or services; cli/update_guard.c brings those together.
#include "updater/trial.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#define S UINT64_C(1000000000)

static uint64_t number(yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	return yyjson_is_uint(value) ? yyjson_get_uint(value) : UINT64_MAX;
}

static const char *text_of(yyjson_val *object, const char *key)
{
	const char *text = yyjson_get_str(yyjson_obj_get(object, key));

	return text ? text : "";
}

static void take_modules(yyjson_val *modules, struct trial_sample *sample)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(modules);
	yyjson_val *module;

	while ((module = yyjson_arr_iter_next(&each)) && sample->module_count < TRIAL_MODULES_MAX)
		if (strcmp(text_of(module, "state"), "running") == 0)
			snprintf(sample->modules[sample->module_count++], TRIAL_NAME_SIZE, "%s",
				 text_of(module, "name"));
}

int trial_sample_read(const char *text, size_t length, uint64_t at_ns, struct trial_sample *ret_sample)
{
	yyjson_doc *doc = yyjson_read(text, length, 0);
	yyjson_val *root = yyjson_doc_get_root(doc), *spool = yyjson_obj_get(root, "spool");
	yyjson_val *stream = yyjson_obj_get(root, "stream"), *handover = yyjson_obj_get(root, "handover");
	yyjson_val *rules = yyjson_obj_get(root, "rules");
	const char *state = text_of(stream, "state");
	struct trial_sample sample = {.at_ns = at_ns};
	uint64_t error_ns;

	if (strcmp(text_of(root, "kind"), "status") != 0 || !*text_of(root, "version")) {
		yyjson_doc_free(doc);
		return -EBADMSG;
	}
	snprintf(sample.version, sizeof(sample.version), "%s", text_of(root, "version"));
	snprintf(sample.source, sizeof(sample.source), "%s", text_of(root, "source"));
	sample.pid = number(root, "pid");
	sample.uptime_ns = number(root, "uptime_ns");
	sample.cpu_ns = number(root, "cpu_ns");
	sample.memory_bytes = number(root, "rss_bytes");
	sample.time_ns = number(root, "time_ns");
	sample.durable = number(spool, "durable");
	sample.in_memory = yyjson_is_true(yyjson_obj_get(spool, "in_memory"));
	sample.streams = yyjson_is_obj(stream);
	sample.stream_success_ns = number(stream, "last_success_ns");
	error_ns = number(stream, "last_error_ns");
	// Between two failures it is sending, and no better.
	sample.stream_ill = !strcmp(state, "retrying") || !strcmp(state, "dead") || !strcmp(state, "stopped") ||
			    (error_ns != UINT64_MAX &&
			     (sample.stream_success_ns == UINT64_MAX || sample.stream_success_ns < error_ns));
	sample.hands_over = yyjson_is_obj(handover);
	sample.handovers_failed = number(handover, "failed");
	sample.rules_read = number(rules, "reloads");
	sample.rules_failed = number(rules, "failed");
	sample.rules_failed_own = number(rules, "failed_own");
	sample.rules_left_out = strcmp(text_of(rules, "pushed"), "left out") == 0;
	snprintf(sample.rules_why, sizeof(sample.rules_why), "%s", text_of(rules, "why"));
	take_modules(yyjson_obj_get(root, "modules"), &sample);
	yyjson_doc_free(doc);
	*ret_sample = sample;
	return 0;
}

void trial_watch_begin(struct trial_watch *watch, const struct update_trial *trial, const struct trial_sample *before,
		       uint64_t now_ns)
{
	*watch = (struct trial_watch){.answer_ns = now_ns};
	snprintf(watch->version, sizeof(watch->version), "%s", trial->version);
	watch->deadline_ns = (trial->began_ns < now_ns ? trial->began_ns : now_ns) + trial->deadline_s * S;
	watch->least_ns = (trial->deadline_s < TRIAL_WATCHED_S ? trial->deadline_s : TRIAL_WATCHED_S) * S;
	watch->has_before = before && strcmp(before->version, trial->previous) == 0;
	if (watch->has_before)
		watch->before = *before;
}

static void since(uint64_t *since_ns, bool wrong, uint64_t now_ns)
{
	if (!wrong)
		*since_ns = 0;
	else if (!*since_ns)
		*since_ns = now_ns;
}

// What the version before used was within its budget, so twice that is.
static uint64_t memory_budget(const struct trial_watch *watch)
{
	uint64_t before = watch->has_before ? watch->before.memory_bytes : UINT64_MAX;

	if (before == UINT64_MAX || before * 2 < TRIAL_MEMORY_BYTES)
		return TRIAL_MEMORY_BYTES;
	return before > TRIAL_MEMORY_CAP_BYTES / 2 ? TRIAL_MEMORY_CAP_BYTES : before * 2;
}

static uint64_t cpu_budget_percent(const struct trial_watch *watch)
{
	const struct trial_sample *before = &watch->before;
	uint64_t percent = 0;

	if (watch->has_before && before->cpu_ns != UINT64_MAX && before->uptime_ns != UINT64_MAX &&
	    before->uptime_ns > S)
		percent = before->cpu_ns / (before->uptime_ns / 100) * 2;
	return percent > TRIAL_CPU_PERCENT ? percent : TRIAL_CPU_PERCENT;
}

// Attaching and reading what lives already is work that comes once: the first window is not judged.
static void add_cpu(struct trial_watch *watch, const struct trial_sample *sample, uint64_t now_ns)
{
	uint64_t span_ns = now_ns - watch->cpu_at_ns;

	if (sample->cpu_ns == UINT64_MAX || span_ns < TRIAL_CPU_WINDOW_S * S)
		return;
	if (watch->cpu_ns && sample->cpu_ns > watch->cpu_ns)
		watch->cpu_over = (sample->cpu_ns - watch->cpu_ns) / (span_ns / 100) > cpu_budget_percent(watch);
	watch->cpu_ns = sample->cpu_ns;
	watch->cpu_at_ns = now_ns;
}

bool trial_delivers(const struct trial_sample *sample, uint64_t since_ns)
{
	return sample->streams && !sample->stream_ill && sample->stream_success_ns != UINT64_MAX &&
	       sample->stream_success_ns > since_ns;
}

// Where the version before delivered nothing, nothing is asked of this one.
static bool must_deliver(const struct trial_watch *watch)
{
	return watch->has_before && trial_delivers(&watch->before, 0);
}

void trial_watch_add(struct trial_watch *watch, const struct trial_sample *sample, uint64_t now_ns)
{
	bool progress;

	if (!sample || strcmp(sample->version, watch->version) != 0)
		return;
	if (watch->seen && watch->latest.pid != sample->pid)
		watch->ended = true;
	if (!watch->seen) {
		watch->first_ns = watch->durable_ns = watch->cpu_at_ns = now_ns;
		watch->first_time_ns = sample->time_ns;
		watch->first_durable = sample->durable;
	}
	progress = watch->seen && sample->durable != UINT64_MAX && sample->durable > watch->latest.durable;
	if (progress)
		watch->durable_ns = now_ns;
	since(&watch->stream_ill_ns, must_deliver(watch) && sample->stream_ill, now_ns);
	since(&watch->in_memory_ns, sample->in_memory && !watch->before.in_memory, now_ns);
	since(&watch->memory_ns,
	      sample->memory_bytes != UINT64_MAX && sample->memory_bytes > memory_budget(watch), now_ns);
	add_cpu(watch, sample, now_ns);
	watch->latest = *sample;
	watch->answer_ns = now_ns;
	watch->seen = true;
}

__attribute__((format(printf, 2, 3))) static enum trial_verdict fail(char why[UPDATE_REASON_SIZE], const char *format,
								      ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(why, UPDATE_REASON_SIZE, format, list);
	va_end(list);
	return TRIAL_FAILED;
}

static bool over(uint64_t since_ns, uint64_t now_ns, uint64_t limit_s)
{
	return since_ns && now_ns > since_ns && now_ns - since_ns > limit_s * S;
}

// One that ran before and does not now; NULL: none.
static const char *missing_module(const struct trial_watch *watch)
{
	for (size_t i = 0; watch->has_before && i < watch->before.module_count; i++) {
		size_t j = 0;

		while (j < watch->latest.module_count &&
		       strcmp(watch->latest.modules[j], watch->before.modules[i]) != 0)
			j++;
		if (j == watch->latest.module_count)
			return watch->before.modules[i];
	}
	return NULL;
}

// A host where hardly anything is recorded may be slower than TRIAL_STALLED_S.
static bool is_busy(const struct trial_watch *watch)
{
	const struct trial_sample *before = &watch->before;

	return watch->has_before && before->durable != UINT64_MAX && before->uptime_ns != UINT64_MAX &&
	       before->uptime_ns / S < before->durable * (TRIAL_STALLED_S / 4);
}

// Of a host that has little to say, nothing can be expected so soon.
static bool must_deliver_soon(const struct trial_watch *watch)
{
	return must_deliver(watch) && watch->before.time_ns != UINT64_MAX &&
	       watch->before.time_ns < watch->before.stream_success_ns + TRIAL_STREAM_S / 2 * S;
}

static bool has_delivered(const struct trial_watch *watch)
{
	return watch->latest.stream_success_ns != UINT64_MAX &&
	       watch->latest.stream_success_ns > watch->first_time_ns;
}

static enum trial_verdict judge_running(const struct trial_watch *watch, uint64_t now_ns, bool *ret_network,
					char why[UPDATE_REASON_SIZE])
{
	const struct trial_sample *latest = &watch->latest;
	const char *module = missing_module(watch);

	if (module)
		return fail(why, "the module %s ran before and does not now", module);
	if (watch->has_before && strcmp(watch->before.source, "bpf") == 0 && strcmp(latest->source, "bpf") != 0)
		return fail(why, "it records from %s, and from BPF before", latest->source);
	if (over(watch->memory_ns, now_ns, TRIAL_MEMORY_S))
		return fail(why, "it uses %llu MiB of memory, %llu are allowed",
			    (unsigned long long)latest->memory_bytes >> 20,
			    (unsigned long long)memory_budget(watch) >> 20);
	if (watch->cpu_over)
		return fail(why, "it uses more than %llu%% of a core",
			    (unsigned long long)cpu_budget_percent(watch));
	if (over(watch->in_memory_ns, now_ns, TRIAL_MEMORY_S))
		return fail(why, "the spool takes no records");
	if (is_busy(watch) && over(watch->durable_ns, now_ns, TRIAL_STALLED_S))
		return fail(why, "nothing new was recorded for %d s", TRIAL_STALLED_S);
	if (watch->before.streams && !latest->streams)
		return fail(why, "it streams no more");
	*ret_network = true;
	if (over(watch->stream_ill_ns, now_ns, TRIAL_STREAM_S))
		return fail(why, "nothing was delivered for %d s, and the version before did", TRIAL_STREAM_S);
	if (must_deliver_soon(watch) && !has_delivered(watch) && over(watch->first_ns, now_ns, TRIAL_STREAM_S))
		return fail(why, "no batch was acknowledged in %d s, and of the version before one was",
			    TRIAL_STREAM_S);
	*ret_network = false;
	return TRIAL_GOING;
}

enum trial_verdict trial_judge(const struct trial_watch *watch, uint64_t now_ns, bool *ret_network,
			       char why[UPDATE_REASON_SIZE])
{
	enum trial_verdict verdict = TRIAL_GOING;

	*ret_network = false;
	if (watch->ended)
		return fail(why, "the collector ended and was started again");
	if (now_ns > watch->answer_ns && now_ns - watch->answer_ns > TRIAL_SILENT_S * S)
		return fail(why, watch->seen ? "the collector does not answer" : "the collector never answered");
	if (watch->seen)
		verdict = judge_running(watch, now_ns, ret_network, why);
	if (verdict != TRIAL_GOING || !watch->seen || now_ns < watch->deadline_ns ||
	    now_ns - watch->first_ns < watch->least_ns)
		return verdict;
	if (watch->first_durable == UINT64_MAX || watch->latest.durable <= watch->first_durable)
		return fail(why, "nothing was recorded");
	*ret_network = true;
	if (must_deliver(watch) && !has_delivered(watch))
		return fail(why, "no batch was acknowledged");
	return TRIAL_HELD;
}

void trial_rules_begin(struct trial_watch *watch, const struct update_trial *trial, const struct trial_sample *before,
		       uint64_t now_ns)
{
	struct update_trial same = *trial;

	snprintf(same.version, sizeof(same.version), "%s", before->version);
	snprintf(same.previous, sizeof(same.previous), "%s", before->version);
	trial_watch_begin(watch, &same, before, now_ns);
	watch->before.streams = false;
}

enum trial_verdict trial_judge_rules(const struct trial_watch *watch, uint64_t now_ns, bool *ret_unread,
				     char why[UPDATE_REASON_SIZE])
{
	const struct trial_sample *before = &watch->before, *latest = &watch->latest;
	bool says = watch->seen && latest->rules_read != UINT64_MAX && before->rules_read != UINT64_MAX, ignored;
	enum trial_verdict verdict = trial_judge(watch, now_ns, &ignored, why);

	*ret_unread = false;
	if (!says || watch->ended || now_ns - watch->answer_ns > TRIAL_SILENT_S * S)
		return verdict;
	if (latest->rules_read == before->rules_read)
		return over(watch->first_ns, now_ns, TRIAL_SILENT_S) ? fail(why, "the collector did not read them")
								     : TRIAL_GOING;
	if (latest->rules_failed_own > before->rules_failed_own) {
		*ret_unread = true;
		return TRIAL_HELD;
	}
	if (latest->rules_failed > before->rules_failed || latest->rules_left_out)
		return fail(why, "the collector refuses them: %s", latest->rules_why);
	return verdict;
}

bool trial_count_start(struct update_trial *trial, const char *current, const char *boot_id, uint64_t now_ns)
{
	bool same_boot = strcmp(trial->began_boot_id, boot_id) == 0;

	if (!trial->on || strcmp(trial->version, current) != 0)
		return true;
	if (same_boot ? trial->starts > 0 : trial->starts >= TRIAL_STARTS_MAX)
		return false;
	trial->starts++;
	if (same_boot)
		return true;
	snprintf(trial->began_boot_id, sizeof(trial->began_boot_id), "%s", boot_id);
	trial->began_ns = now_ns;
	return true;
}
