// SPDX-License-Identifier: Apache-2.0
// `tracer collect`, hand-over. The older image keeps everything until the newer says TAKEN, and can go on until then;
// the newer touches no ring before it is told BYE. Nothing here waits longer than the rings have room.
#include "cli/collect_handover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/agent.h"
#include "core/agent_state.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/loop.h"
#include "version.h"

enum {
	MEET_WAIT_MS = 30000, // for the parent, and for the offer: the older image may be in the middle of a round
	STATE_WAIT_MS = 10000, // for the older image to write its state
	TAKEN_WAIT_MS = 3000, // for the newer one to read it: nobody reads the rings meanwhile
	END_WAIT_MS = 10000, // for the parent to say that a newer image is gone
};

static void close_and_forget(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static const char *module_name_of(unsigned int id)
{
	for (size_t i = 0; modules[i]; i++) {
		if (modules[i]->id == (enum module_id)id)
			return modules[i]->name;
	}
	return "?";
}

// ---- the newer image ---------------------------------------------------------------------------------------------

void collect_handover_refuse(struct collect_handover *handover, const char *why)
{
	if (handover->link.next && handover->offer)
		log_error("not taking over: %s", why);
	if (handover->link.next)
		warden_send(&handover->link, WARDEN_REFUSED, why);
}

static int refuse(struct collect_handover *handover, const char *step, int error)
{
	char why[WARDEN_TEXT_SIZE];

	snprintf(why, sizeof(why), "%s: %s", step, strerror(-error));
	collect_handover_refuse(handover, why);
	return error;
}

static int peer_meet(struct collect_handover *handover)
{
	struct warden_message message;
	uint64_t until_ns = clock_boot_ns() + MEET_WAIT_MS * UINT64_C(1000000);
	int fd = -1, result = warden_send(&handover->link, WARDEN_READY, NULL);

	while (!result && fd < 0) {
		uint64_t now_ns = clock_boot_ns();

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		result = warden_receive(&handover->link, (int)((until_ns - now_ns) / 1000000) + 1, &message, &fd);
		if (result == -EAGAIN)
			result = 0;
	}
	if (!result)
		handover->peer_fd = fd;
	return result;
}

// A packet of this kind from the other image.
static int packet_of(struct collect_handover *handover, enum handover_kind kind, int timeout_ms,
		     struct handover_packet *packet)
{
	int fd = -1, result = handover_receive(handover->peer_fd, timeout_ms, packet, &fd);

	if (result == -EAGAIN)
		return -ETIMEDOUT;
	if (result < 0)
		return result;
	if (fd >= 0)
		close(fd);
	return packet->kind == kind ? 0 : -EBADMSG;
}

int collect_handover_begin(struct collect_handover *handover)
{
	struct handover_packet *packet;
	int result;

	if (!handover->link.next)
		return 0;
	packet = calloc(1, sizeof(*packet));
	if (!packet)
		return refuse(handover, "starting", -ENOMEM);
	result = peer_meet(handover);
	if (!result)
		result = handover_memory_new(&handover->memory_fd);
	if (!result)
		result = handover_send(handover->peer_fd, packet, HANDOVER_HELLO, -1);
	if (!result)
		result = packet_of(handover, HANDOVER_OFFER, MEET_WAIT_MS, packet);
	if (!result) {
		handover->offer = malloc(sizeof(*handover->offer));
		result = handover->offer ? 0 : -ENOMEM;
	}
	if (!result) {
		*handover->offer = packet->offer;
		handover->totals = packet->offer.totals;
		memcpy(handover->from_version, packet->offer.version, sizeof(handover->from_version));
	}
	free(packet);
	return result < 0 ? refuse(handover, "meeting the running collector", result) : 0;
}

static int modules_check(struct collect_handover *handover)
{
	uint64_t missing = handover->offer->modules & ~agent_modules(handover->agent);
	char why[WARDEN_TEXT_SIZE];

	if (!missing)
		return 0;
	snprintf(why, sizeof(why), "module %s, which ran before, does not run",
		 module_name_of((unsigned int)__builtin_ctzll(missing)));
	collect_handover_refuse(handover, why);
	return -ENOTSUP;
}

static int state_ask(struct collect_handover *handover, struct handover_state *ret_state)
{
	struct handover_packet *packet = calloc(1, sizeof(*packet));
	int result;

	if (!packet)
		return -ENOMEM;
	packet->flags = agent_adopted(handover->agent) ? 0 : HANDOVER_OWN_HOOKS;
	result = handover_send(handover->peer_fd, packet, HANDOVER_STOP, handover->memory_fd);
	if (!result)
		result = packet_of(handover, HANDOVER_STATE, STATE_WAIT_MS, packet);
	if (!result)
		*ret_state = packet->state;
	free(packet);
	return result;
}

static void state_resume(struct collect_handover *handover, const struct handover_state *state)
{
	const void *data = NULL;
	int result = handover_memory_map(handover->memory_fd, state->length, &data);

	// Telling is all that is left: what runs is found by looking, and the gap is a record.
	if (result < 0)
		log_warn("the state of the collector before cannot be read: %s", strerror(-result));
	result = agent_resume(handover->agent, handover->offer, state, data);
	if (result < 0)
		log_warn("the state of the collector before is none: %s", strerror(-result));
	if (data)
		munmap((void *)(uintptr_t)data, state->length);
}

static int taken(struct collect_handover *handover)
{
	struct handover_packet *packet = calloc(1, sizeof(*packet));
	int result = packet ? handover_send(handover->peer_fd, packet, HANDOVER_TAKEN, -1) : -ENOMEM;

	if (!result)
		result = packet_of(handover, HANDOVER_BYE, END_WAIT_MS, packet);
	free(packet);
	return result;
}

static void taken_note(struct collect_handover *handover, const struct handover_state *state, uint64_t first_drain_ns)
{
	struct handover_totals *totals = &handover->totals;

	handover->adopted = agent_adopted(handover->agent);
	totals->count++;
	totals->last_gap_ns = first_drain_ns - state->last_drain_ns;
	if (totals->last_gap_ns > totals->longest_gap_ns)
		totals->longest_gap_ns = totals->last_gap_ns;
	log_info("took over from %s: %s, rings not read for %.1f ms", handover->from_version,
		 handover->adopted ? "with its hooks" : "with hooks of its own", (double)totals->last_gap_ns / 1e6);
}

int collect_handover_take(struct collect_handover *handover)
{
	struct handover_state state;
	int result;

	if (!handover->offer)
		return 0;
	result = modules_check(handover);
	if (result < 0)
		return result;
	result = state_ask(handover, &state);
	if (result < 0)
		return refuse(handover, "asking for the state", result);
	result = handover->calls.spool_enter(handover->calls.context);
	if (result < 0)
		return refuse(handover, "opening the spool", result);
	state_resume(handover, &state);
	result = taken(handover);
	if (result < 0)
		return refuse(handover, "taking over", result);
	taken_note(handover, &state, agent_first_drain(handover->agent));
	handover_offer_close(handover->offer);
	free(handover->offer);
	handover->offer = NULL;
	handover->link.next = false;
	close_and_forget(&handover->peer_fd);
	close_and_forget(&handover->memory_fd);
	return 0;
}

// ---- the older image ---------------------------------------------------------------------------------------------

static void failed_note(struct collect_handover *handover, const char *why)
{
	handover->totals.failed++;
	handover->last_error_ns = clock_real_ns();
	snprintf(handover->last_error, sizeof(handover->last_error), "%s", why);
}

static void peer_forget(struct collect_handover *handover)
{
	if (handover->peer_fd >= 0)
		loop_remove_fd(handover->loop, handover->peer_fd);
	close_and_forget(&handover->peer_fd);
}

static void offer_send(struct collect_handover *handover)
{
	struct handover_packet *packet = calloc(1, sizeof(*packet));
	int result = packet ? handover->calls.offer(handover->calls.context, &packet->offer) : -ENOMEM;

	if (!result) {
		snprintf(packet->offer.version, sizeof(packet->offer.version), "%s", TRACER_VERSION);
		snprintf(packet->offer.build, sizeof(packet->offer.build), "%s", TRACER_BUILD);
		packet->offer.totals = handover->totals;
		result = handover_send(handover->peer_fd, packet, HANDOVER_OFFER, -1);
	}
	free(packet);
	if (result == -ENOTSUP) {
		// Nothing of the kernel's that could change hands: an orderly end, then the next image.
		log_info("without BPF there is nothing to hand over: the next image starts when this one has ended");
		warden_send(&handover->link, WARDEN_RESTART, NULL);
		loop_stop(handover->loop, 0);
	} else if (result < 0) {
		log_error("handing over: %s", strerror(-result));
		warden_send(&handover->link, WARDEN_KILL, NULL);
	}
}

// Everything is read, written and closed; the newer image decides.
static int state_give(struct collect_handover *handover, bool own_hooks, int memory_fd)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct handover_packet *packet = calloc(1, sizeof(*packet));
	struct handover_state state = { 0 };
	int result = packet ? 0 : -ENOMEM;

	if (!result)
		result = agent_yield(handover->agent, own_hooks, &out, &state.last_drain_ns, &state.cut_ns);
	if (!result)
		result = handover->calls.spool_leave(handover->calls.context);
	if (!result)
		result = handover_memory_write(memory_fd, out.data, out.length);
	if (!result) {
		state.length = out.length;
		packet->state = state;
		result = handover_send(handover->peer_fd, packet, HANDOVER_STATE, -1);
	}
	if (!result)
		result = packet_of(handover, HANDOVER_TAKEN, TAKEN_WAIT_MS, packet);
	if (!result && warden_send(&handover->link, WARDEN_DONE, NULL) == 0) {
		handover_send(handover->peer_fd, packet, HANDOVER_BYE, -1);
		_exit(0); // nothing is to be undone: sockets and hooks are the newer image's
	}
	free(packet);
	return result ? result : -EPIPE;
}

// The newer image must be gone before this one reads or writes again.
static void take_back(struct collect_handover *handover, int error)
{
	struct warden_message message = { 0 };
	uint64_t until_ns = clock_boot_ns() + END_WAIT_MS * UINT64_C(1000000);
	int fd = -1, result;

	log_error("the next image did not take over: %s", strerror(-error));
	warden_send(&handover->link, WARDEN_KILL, NULL);
	do {
		result = warden_receive(&handover->link, 100, &message, &fd);
		if (result == 0 && fd >= 0)
			close(fd);
	} while ((result == -EAGAIN || (!result && message.kind != WARDEN_FAILED)) && clock_boot_ns() < until_ns);
	failed_note(handover, !result && *message.text ? message.text : strerror(-error));
	result = handover->calls.spool_enter(handover->calls.context);
	agent_unyield(handover->agent);
	if (result < 0) {
		log_error("the spool cannot be opened again: %s", strerror(-result));
		loop_stop(handover->loop, result);
	}
}

static void on_peer(void *context, int peer_fd, uint32_t events)
{
	struct collect_handover *handover = context;
	struct handover_packet *packet = calloc(1, sizeof(*packet));
	int fd = -1, result = packet ? handover_receive(peer_fd, 0, packet, &fd) : -ENOMEM;

	(void)events;
	if (result == -EAGAIN) {
		free(packet);
		return;
	}
	if (!result && packet->kind == HANDOVER_HELLO) {
		offer_send(handover);
	} else if (!result && packet->kind == HANDOVER_STOP && fd >= 0) {
		result = state_give(handover, packet->flags & HANDOVER_OWN_HOOKS, fd);
		take_back(handover, result);
		peer_forget(handover);
	} else {
		peer_forget(handover); // it ended: the parent says why
	}
	if (fd >= 0)
		close(fd);
	free(packet);
}

static void peer_take(struct collect_handover *handover, int fd)
{
	peer_forget(handover);
	handover->peer_fd = fd;
	if (loop_add_fd(handover->loop, fd, EPOLLIN, on_peer, handover) < 0)
		close_and_forget(&handover->peer_fd);
}

static void on_parent(void *context, int parent_fd, uint32_t events)
{
	struct collect_handover *handover = context;
	struct warden_message message;
	int fd = -1, result = warden_receive(&handover->link, 0, &message, &fd);

	(void)events;
	if (result == -EPIPE) {
		loop_remove_fd(handover->loop, parent_fd);
		log_error("the process that started this one is gone: stopping");
		loop_stop(handover->loop, 0);
		return;
	}
	if (result < 0)
		return;
	if (message.kind == WARDEN_PEER && fd >= 0) {
		peer_take(handover, fd);
		return;
	}
	if (message.kind == WARDEN_FAILED)
		failed_note(handover, message.text);
	if (fd >= 0)
		close(fd);
}

int collect_handover_listen(struct collect_handover *handover)
{
	if (handover->link.fd < 0)
		return 0;
	return loop_add_fd(handover->loop, handover->link.fd, EPOLLIN, on_parent, handover);
}

void collect_handover_request(struct collect_handover *handover)
{
	if (warden_send(&handover->link, WARDEN_REQUEST, NULL) < 0)
		log_warn("no parent process: this collector cannot be handed over");
}

void collect_handover_close(struct collect_handover *handover)
{
	if (handover->offer)
		handover_offer_close(handover->offer);
	free(handover->offer);
	handover->offer = NULL;
	close_and_forget(&handover->peer_fd);
	close_and_forget(&handover->memory_fd);
	close_and_forget(&handover->link.fd);
}

void collect_handover_write(const struct collect_handover *handover, struct json *json)
{
	const struct handover_totals *totals = &handover->totals;

	json_key(json, "handover");
	json_open_object(json);
	json_put_u64(json, "count", totals->count);
	json_put_u64(json, "failed", totals->failed);
	json_put_known_u64(json, "last_gap_ns", totals->count ? totals->last_gap_ns : JSON_UNKNOWN);
	json_put_known_u64(json, "longest_gap_ns", totals->count ? totals->longest_gap_ns : JSON_UNKNOWN);
	json_put_string(json, "from_version", handover->from_version[0] ? handover->from_version : NULL);
	json_put_string(json, "how", !handover->from_version[0] ? NULL : handover->adopted ? "adopted" : "attached");
	json_put_string(json, "last_error", handover->last_error_ns ? handover->last_error : NULL);
	json_put_known_u64(json, "last_error_ns", handover->last_error_ns ? handover->last_error_ns : JSON_UNKNOWN);
	json_close_object(json);
}
