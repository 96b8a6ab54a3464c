// SPDX-License-Identifier: Apache-2.0
// Hand-over, the words: packets between two images, the offer's list of descriptors, the sealed memory file. Every
// packet is checked for the size and the ends of what it says; what it means is the images' matter.
#include "core/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/fs.h"

enum { STATE_MAX = 1 << 30 };

void handover_offer_add(struct handover_offer *offer, enum handover_thing thing, unsigned int module, const char *name,
			int fd)
{
	struct handover_item *item = &offer->items[offer->item_count];

	if (fd < 0 || offer->item_count == HANDOVER_FDS_MAX || strlen(name) >= sizeof(item->name))
		return;
	*item = (struct handover_item){ .thing = (uint16_t)thing, .module = (uint16_t)module };
	memcpy(item->name, name, strlen(name) + 1);
	offer->fds[offer->item_count++] = fd;
}

static int item_find(const struct handover_offer *offer, enum handover_thing thing, unsigned int module,
		     const char *name)
{
	for (uint64_t i = 0; i < offer->item_count; i++) {
		const struct handover_item *item = &offer->items[i];

		if (item->thing == thing && item->module == module && !strcmp(item->name, name))
			return (int)i;
	}
	return -1;
}

int handover_offer_find(const struct handover_offer *offer, enum handover_thing thing, unsigned int module,
			const char *name)
{
	int i = item_find(offer, thing, module, name);

	return i < 0 ? -1 : offer->fds[i];
}

int handover_offer_take(struct handover_offer *offer, enum handover_thing thing, unsigned int module, const char *name)
{
	int i = item_find(offer, thing, module, name), fd = i < 0 ? -1 : offer->fds[i];

	if (i >= 0)
		offer->fds[i] = -1;
	return fd;
}

void handover_offer_close(struct handover_offer *offer)
{
	for (uint64_t i = 0; i < offer->item_count; i++) {
		if (offer->fds[i] >= 0)
			close(offer->fds[i]);
	}
	offer->item_count = 0;
}

static size_t packet_size(uint32_t kind)
{
	const size_t head = offsetof(struct handover_packet, flags);

	if (kind == HANDOVER_OFFER)
		return head + offsetof(struct handover_offer, fds);
	if (kind == HANDOVER_STATE)
		return head + sizeof(struct handover_state);
	return head + sizeof(uint64_t);
}

int handover_send(int peer_fd, struct handover_packet *packet, enum handover_kind kind, int fd)
{
	bool offer = kind == HANDOVER_OFFER;

	packet->version = HANDOVER_VERSION;
	packet->kind = kind;
	return handover_wire_send(peer_fd, packet, packet_size(kind), offer ? packet->offer.fds : &fd,
				  offer ? (size_t)packet->offer.item_count : fd >= 0);
}

static int offer_check(struct handover_offer *offer, const int *fds, size_t fd_count)
{
	offer->version[sizeof(offer->version) - 1] = offer->build[sizeof(offer->build) - 1] = '\0';
	if (offer->item_count != fd_count)
		return -EBADMSG;
	for (size_t i = 0; i < fd_count; i++) {
		offer->items[i].name[HANDOVER_NAME_SIZE - 1] = '\0';
		offer->fds[i] = fds[i];
	}
	return 0;
}

int handover_receive(int peer_fd, int timeout_ms, struct handover_packet *ret_packet, int *ret_fd)
{
	size_t fd_count = HANDOVER_FDS_MAX;
	int fds[HANDOVER_FDS_MAX], result = 0;
	long got = handover_wire_receive(peer_fd, timeout_ms, ret_packet, sizeof(*ret_packet), fds, &fd_count);

	if (got < 0)
		return (int)got;
	*ret_fd = -1;
	if ((size_t)got < sizeof(uint64_t) || ret_packet->version != HANDOVER_VERSION ||
	    (size_t)got != packet_size(ret_packet->kind))
		result = -EBADMSG;
	else if (ret_packet->kind == HANDOVER_OFFER)
		result = offer_check(&ret_packet->offer, fds, fd_count);
	else if (fd_count > 1)
		result = -EBADMSG;
	else if (fd_count)
		*ret_fd = fds[0];
	while (result < 0 && fd_count)
		close(fds[--fd_count]);
	return result;
}

int handover_memory_new(int *ret_fd)
{
	int fd = memfd_create("tracer-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int handover_memory_write(int fd, const void *data, size_t length)
{
	int result = fs_write_all(fd, data, length);

	if (!result && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		result = -errno;
	return result;
}

int handover_memory_map(int fd, size_t length, const void **ret_data)
{
	const int wanted = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat info;
	void *data;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (seals < 0 || (seals & wanted) != wanted || !length || length > STATE_MAX ||
	    (uint64_t)info.st_size != length)
		return -EBADMSG;
	data = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	*ret_data = data;
	return 0;
}

uint64_t handover_hash(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(1099511628211); // FNV-1a
	return (hash ^ length) * UINT64_C(1099511628211);
}
