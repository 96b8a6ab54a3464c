// SPDX-License-Identifier: Apache-2.0
// The collector's own view of itself as one JSON object, and its processes as lines, served by core/status.c.

#include "cli/collect_status.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "cli/collect_handover.h"
#include "core/agent.h"
#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/fallback.h"
#include "core/proc_read.h"
#include "core/spool.h"
#include "core/status.h"
#include "core/stream.h"

// accepted = delivered + pending + dropped, with each reason by its name.
static void status_put_spool(const struct spool *spool, struct json *json)
{
	struct spool_stats stats;
	uint64_t dropped = 0;

	spool_stats(spool, &stats);
	json_key(json, "spool");
	json_open_object(json);
	json_put_u64(json, "accepted", stats.accepted);
	json_put_u64(json, "delivered", stats.delivered);
	json_put_u64(json, "pending", stats.pending);
	json_key(json, "dropped");
	json_open_object(json);
	for (int reason = 0; reason < SPOOL_REASON_END; reason++) {
		dropped += stats.dropped[reason];
		json_put_u64(json, spool_reason_name((enum spool_reason)reason),
			     stats.dropped[reason]);
	}
	json_close_object(json);
	json_put_bool(json, "balanced",
		      stats.accepted == stats.delivered + stats.pending + dropped);
	json_put_u64(json, "durable", stats.durable);
	json_put_u64(json, "segments", stats.segments);
	json_put_u64(json, "bytes", stats.bytes);
	json_put_bool(json, "in_memory", stats.ring_active);
	if (stats.ring_active)
		json_put_string(json, "in_memory_because", spool_reason_name(stats.ring_reason));
	json_put_u64(json, "memory_records", stats.ring_records);
	json_put_u64(json, "memory_bytes", stats.ring_bytes);
	json_close_object(json);
}

static void put_time(struct json *json, const char *key, uint64_t time_ns)
{
	json_put_known_u64(json, key, time_ns ? time_ns : JSON_UNKNOWN);
}

// What the streamer last said of itself; null where it has said nothing.
static void status_put_stream(const struct collect_status *status, struct json *json)
{
	struct stream_report report = {0};
	uint64_t now_ns = clock_real_ns();
	bool known = status->stream && stream_latest(status->stream, &report);
	bool waits = report.state == STREAM_RETRYING || report.state == STREAM_DEAD;

	json_key(json, "stream");
	if (!*status->stream_url) {
		json_null(json);
		return;
	}
	if (!status->stream) {
		report.state = STREAM_DEAD;
		report.last_error_ns = now_ns;
		snprintf(report.last_error, sizeof(report.last_error), "%s", status->stream_why);
	}
	json_open_object(json);
	json_put_string(json, "url", status->stream_url);
	json_put_string(json, "state", stream_state_name((enum stream_state)report.state));
	json_put_string(json, "host_id", report.host_id[0] ? report.host_id : NULL);
	put_time(json, "last_success_ns", report.last_success_ns);
	put_time(json, "last_error_ns", report.last_error_ns);
	json_put_string(json, "last_error", report.last_error_ns ? report.last_error : NULL);
	put_time(json, "retry_at_ns", waits ? report.retry_at_ns : 0);
	put_time(json, "http_status", (uint64_t)report.http_status);
	json_put_known_u64(json, "acked", known ? report.acked : JSON_UNKNOWN);
	json_put_known_u64(json, "delivered", known ? report.delivered : JSON_UNKNOWN);
	json_put_u64(json, "batches", report.batches);
	json_put_u64(json, "records", report.records);
	json_put_u64(json, "bytes_sent", report.bytes_sent);
	json_put_u64(json, "bytes_packed", report.bytes_packed);
	json_put_u64(json, "quarantined", report.quarantined);
	json_put_u64(json, "holes", report.holes);
	json_put_u64(json, "failures", report.failures);
	json_put_u64(json, "restarts", report.restarts);
	json_put_known_u64(json, "lag_ns",
			   !known ? JSON_UNKNOWN
			   : report.oldest_ns && report.oldest_ns < now_ns ? now_ns - report.oldest_ns
									   : 0);
	json_put_u64(json, "pid", report.pid);
	json_put_u64(json, "landlock", report.landlock);
	json_put_bool(json, "seccomp", report.seccomp == 1);
	json_put_u64(json, "refused_calls", report.refused_calls);
	json_close_object(json);
}

static void status_put_sockets(const struct collect_status *status, struct json *json)
{
	struct status_counts counts = {0};

	json_key(json, "status_clients");
	json_open_object(json);
	if (status->state)
		status_server_counts(status->state, &counts);
	json_put_u64(json, "served", counts.served);
	json_put_u64(json, "cut", counts.cut);
	json_put_u64(json, "refused", counts.refused);
	json_close_object(json);
}

struct service {
	struct json *json;
	uint64_t rss_bytes; // of all so far; JSON_UNKNOWN: one of them is unknown
};

static void service_add(struct service *service, const char *name, uint64_t pid)
{
	uint64_t rss_bytes = status_rss_bytes(pid);

	json_open_object(service->json);
	json_put_string(service->json, "name", name);
	json_put_u64(service->json, "pid", pid);
	json_put_known_u64(service->json, "rss_bytes", rss_bytes);
	json_close_object(service->json);
	if (rss_bytes == JSON_UNKNOWN || service->rss_bytes == JSON_UNKNOWN)
		service->rss_bytes = JSON_UNKNOWN;
	else
		service->rss_bytes += rss_bytes;
}

// The pid is what the streamer said itself: believed when that process is its keeper's child.
static bool streamer_is(uint64_t pid, uint64_t keeper)
{
	CLEANUP(cleanup_close) int fd = proc_open((uint32_t)pid);
	struct proc_stat stat;

	return fd >= 0 && proc_read_stat(fd, &stat) == 0 && stat.ppid == keeper;
}

static void service_add_stream(struct service *service, const struct stream *stream)
{
	struct stream_report report = {0};
	struct stream_handle handle;

	stream_handle_get(stream, &handle);
	if (!handle.hash)
		return; // gone
	service_add(service, "keeper", handle.keeper);
	if (!stream_latest(stream, &report))
		service->rss_bytes = JSON_UNKNOWN;
	else if (streamer_is(report.pid, handle.keeper))
		service_add(service, "streamer", report.pid);
}

// Every process of the service: this one is not all that it takes.
static void status_put_service(const struct collect_status *status, struct json *json)
{
	struct service service = { .json = json };
	uint64_t parent = (uint64_t)status->handover->link.main_pid;

	json_key(json, "service");
	json_open_object(json);
	json_key(json, "processes");
	json_open_array(json);
	service_add(&service, "recorder", (uint64_t)getpid());
	if (parent != (uint64_t)getpid())
		service_add(&service, "parent", parent);
	if (status->stream)
		service_add_stream(&service, status->stream);
	json_close_array(json);
	json_put_known_u64(json, "rss_bytes", service.rss_bytes);
	json_close_object(json);
}

static void put_sentence(void *context, const char *sentence)
{
	json_string(context, sentence);
}

// Where processes are read from, and what that cannot see.
static void status_put_source(const struct collect_status *status, struct json *json)
{
	bool events = status->fallback && fallback_tier(status->fallback) == FALLBACK_NETLINK;

	json_put_string(json, "source", !status->fallback ? "bpf" : events ? "events" : "proc");
	json_put_string(json, "without_bpf",
			status->fallback && status->without_bpf[0] ? status->without_bpf : NULL);
	json_key(json, "missing");
	json_open_array(json);
	if (status->fallback)
		fallback_missing(status->fallback, put_sentence, json);
	json_close_array(json);
}

static void status_put_rules(const struct collect_rules *rules, struct json *json)
{
	json_key(json, "rules");
	json_open_object(json);
	json_put_string(json, "pushed", !rules->pushed ? NULL : rules->left_out ? "left out" : "in use");
	json_put_u64(json, "reloads", rules->reloads);
	json_put_u64(json, "failed", rules->failed);
	json_put_u64(json, "failed_own", rules->failed_own);
	json_put_string(json, "why", rules->why[0] ? rules->why : NULL);
	json_close_object(json);
}

static void status_fill(void *context, struct buf *out)
{
	const struct collect_status *status = context;
	struct json json = json_to(out);

	json_open_object(&json);
	json_put_string(&json, "kind", "status");
	json_put_u64(&json, "time_ns", clock_real_ns());
	status_write_self(&json, (uint64_t)status->handover->link.main_pid, status->start_boot_ns);
	status_put_service(status, &json);
	collect_handover_write(status->handover, &json);
	status_put_source(status, &json);
	status_put_rules(status->rules, &json);
	agent_status(status->agent, &json);
	status_put_spool(status->spool, &json);
	status_put_stream(status, &json);
	status_put_sockets(status, &json);
	json_close_object(&json);
	json_end_line(&json);
}

static void status_fill_processes(void *context, struct buf *out)
{
	const struct collect_status *status = context;

	agent_processes_write(status->agent, out);
}

static void status_open_one(struct collect_status *status, const char *path, const char *name, mode_t mode,
			    gid_t group, status_fill_fn *fill, struct status_server **ret_server)
{
	const struct handover_offer *offer = status->handover->offer;
	int given = offer ? handover_offer_find(offer, HANDOVER_SOCKET, 0, name) : -1;
	int result = *path && given >= 0 ? status_server_adopt(status->loop, path, given, fill, status, ret_server)
					 : -ENOENT;

	if (result < 0 && *path)
		result = status_server_open(status->loop, path, mode, group, fill, status, ret_server);
	if (result < 0 && *path)
		log_warn("no socket at %s: %s", path, strerror(-result));
}

void collect_status_open(struct collect_status *status, const char *path,
			 const char *processes_path, const char *group)
{
	const struct group *entry = *group ? getgrnam(group) : NULL;
	gid_t readers = entry ? entry->gr_gid : (gid_t)-1;

	if (*group && !entry)
		log_warn("status.group: no group %s; only root may list processes", group);
	status_open_one(status, path, "status", 0666, (gid_t)-1, status_fill, &status->state);
	status_open_one(status, processes_path, "processes", entry ? 0660 : 0600, readers, status_fill_processes,
			&status->processes);
}

void collect_status_close(struct collect_status *status)
{
	status_server_close(status->state);
	status_server_close(status->processes);
	status->state = status->processes = NULL;
}
