// SPDX-License-Identifier: Apache-2.0
// Hand-over: one image of the collector gives everything to the next, over a socket that their parent (core/warden.h)
// made. The older one goes on reading until the newer has opened all it needs; then it reads what is left, writes its
// state into a memory file of the newer, and ends when that has taken over. Until that moment it can go on by itself.
//
//	newer                         older
//	HELLO              ->
//	                   <-  OFFER  what it is, and descriptors of its maps, links and sockets
//	STOP (memory file) ->         drains, closes the spool, writes and seals the state
//	                   <-  STATE
//	TAKEN              ->         the rings are the newer's from here on
//	                   <-  BYE
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/handover_wire.h"
#include "core/stream.h"

enum { HANDOVER_VERSION = 1, HANDOVER_NAME_SIZE = 40, HANDOVER_TEXT_SIZE = 64 };

enum handover_kind {
	HANDOVER_HELLO = 1,
	HANDOVER_OFFER,
	HANDOVER_STOP,
	HANDOVER_STATE,
	HANDOVER_TAKEN,
	HANDOVER_BYE,
};

enum handover_thing { HANDOVER_MAP = 1, HANDOVER_LINK, HANDOVER_SOCKET, HANDOVER_STREAM };

struct handover_item {
	uint16_t thing, module; // enum handover_thing; enum module_id of a map or link
	char name[HANDOVER_NAME_SIZE];
};

// The figures of all hand-overs so far; they travel with each.
struct handover_totals {
	uint64_t count, failed;
	uint64_t last_gap_ns, longest_gap_ns; // from the older's last look at its rings to the newer's first
};

struct handover_offer {
	char version[HANDOVER_TEXT_SIZE], build[HANDOVER_TEXT_SIZE];
	uint64_t bpf_hash; // of what is in the kernel; 0: nothing is
	uint64_t modules; // that run, 1 << enum module_id each
	struct stream_handle stream; // hash 0: there is none
	uint64_t start_boot_ns; // when recording began, whichever image did
	struct handover_totals totals;
	uint64_t item_count;
	struct handover_item items[HANDOVER_FDS_MAX];
	int fds[HANDOVER_FDS_MAX]; // one for each item; on the wire beside it
};

enum handover_stop_flag {
	HANDOVER_OWN_HOOKS = 1 << 0, // the newer has hooks and rings of its own, so events are known twice for a while
};

struct handover_state {
	uint64_t length; // bytes in the memory file
	uint64_t last_drain_ns; // the older's last look at its rings, boot time
	uint64_t cut_ns; // with HANDOVER_OWN_HOOKS: events from here on are the newer's; else 0
};

struct handover_packet {
	uint32_t version, kind;
	union {
		uint64_t flags; // STOP: enum handover_stop_flag
		struct handover_state state;
		struct handover_offer offer;
	};
};

void handover_offer_add(struct handover_offer *offer, enum handover_thing thing, unsigned int module, const char *name,
			int fd);
// The descriptor of that name, still the offer's; -1: none.
int handover_offer_find(const struct handover_offer *offer, enum handover_thing thing, unsigned int module,
			const char *name);
// Takes it out: the caller's from then on.
int handover_offer_take(struct handover_offer *offer, enum handover_thing thing, unsigned int module, const char *name);
// Closes the descriptors that nobody took.
void handover_offer_close(struct handover_offer *offer);

// Both: 0 or -errno; packet->kind is set, fd is passed when it is not -1.
int handover_send(int peer_fd, struct handover_packet *packet, enum handover_kind kind, int fd);
// The next packet, checked: its size is that of its kind, names end. Descriptors of an offer are in it, another's is
// in *ret_fd (-1: none). -EAGAIN, -EPIPE, -EBADMSG.
int handover_receive(int peer_fd, int timeout_ms, struct handover_packet *ret_packet, int *ret_fd);

// A memory file for the state, and what is in it once it was sealed. -EBADMSG: it is not sealed, or shorter.
int handover_memory_new(int *ret_fd);
int handover_memory_write(int fd, const void *data, size_t length);
int handover_memory_map(int fd, size_t length, const void **ret_data);

// A running sum of bytes, for comparing what two images have.
uint64_t handover_hash(uint64_t hash, const void *data, size_t length);
