// SPDX-License-Identifier: Apache-2.0
// `tracer collect`, from one image to the next: both sides of core/handover.h, driven by cli/collect.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/handover.h"
#include "core/warden.h"

struct agent;
struct buf;
struct json;
struct loop;

// What only the collector can do with its own rooms. All are called from the loop.
struct collect_handover_calls {
	int (*offer)(void *context, struct handover_offer *offer);
	// Closes the spool. -EAGAIN: records wait in memory.
	int (*spool_leave)(void *context);
	// Opens it (again).
	int (*spool_enter)(void *context);
	void *context;
};

struct collect_handover {
	struct warden_link link;
	struct loop *loop;
	struct agent *agent; // borrowed, once there is one
	struct collect_handover_calls calls;
	int peer_fd; // -1: none
	int memory_fd; // of the newer image; -1: none
	struct handover_offer *offer; // of the older image; NULL: this is the first
	struct handover_totals totals;
	char from_version[HANDOVER_TEXT_SIZE], last_error[WARDEN_TEXT_SIZE];
	uint64_t last_error_ns;
	bool adopted; // at the last one, the kernel's side stayed as it was
};

// The newer image, before it opens anything: comes together with the older one and takes its offer. Nothing happens
// where there is none. -errno: told to the parent already, the image must end by _exit().
int collect_handover_begin(struct collect_handover *handover);
// The newer image, when everything is open and its rights are gone: takes the state, the spool and the rings. -errno:
// told to the parent; the image must end by _exit(), so that it removes nothing that is still the older one's.
int collect_handover_take(struct collect_handover *handover);

// Any image, once there is a loop and an agent: listens to its parent, and gives everything away when asked to.
int collect_handover_listen(struct collect_handover *handover);
// SIGUSR2 reached the image itself.
void collect_handover_request(struct collect_handover *handover);

// Tells the parent why this image ends, where it had begun to take over.
void collect_handover_refuse(struct collect_handover *handover, const char *why);
void collect_handover_close(struct collect_handover *handover);

// The member "handover" of the status.
void collect_handover_write(const struct collect_handover *handover, struct json *json);
