// SPDX-License-Identifier: Apache-2.0
// Streamer: the mark of the machine under it, by which a copied disk is told from its original. The firmware's
// identifier where there is one, else the addresses of the network cards that are real. Kept as a hash: it is compared,
// never shown.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/stream_private.h"

enum { VALUE_MAX = 256, CARDS_MAX = 32, CARD_SIZE = 24 };

static void mark(const char *kind, const void *value, size_t length, char out[STREAM_HARDWARE_SIZE])
{
	unsigned char hash[crypto_generichash_BYTES_MIN];
	char hex[sizeof(hash) * 2 + 1];

	crypto_generichash(hash, sizeof(hash), value, length, NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	snprintf(out, STREAM_HARDWARE_SIZE, "%s:%s", kind, hex);
}

// One word of a small file; "" when it cannot be read or is what firmware says that knows nothing: one repeated digit,
// or the number that a widespread vendor forgot to change.
static void value_read(int sys_fd, const char *path, char out[VALUE_MAX])
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	size_t length;
	char first = 0;
	bool varies = false;

	*out = 0;
	if (fs_read_at(sys_fd, path, VALUE_MAX - 1, &text) < 0 || !text.data)
		return;
	length = strcspn(text.data, "\r\n ");
	for (size_t i = 0; i < length; i++) {
		if (text.data[i] == '-')
			continue;
		first = first ? first : text.data[i];
		varies |= text.data[i] != first;
	}
	if (varies && strncasecmp(text.data, "03000200-0400-0500-0006-000700080009", length) != 0)
		snprintf(out, VALUE_MAX, "%.*s", (int)length, text.data);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

// Addresses of cards that have a device behind them and were given theirs by its maker, in order.
static size_t cards_read(int sys_fd, char cards[CARDS_MAX][CARD_SIZE])
{
	int fd = openat(sys_fd, "class/net", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	size_t count = 0;

	while (dir && count < CARDS_MAX && (entry = readdir(dir))) {
		char path[300], value[VALUE_MAX], assigned[VALUE_MAX] = "";
		CLEANUP(buf_free) struct buf text = BUF_INIT;

		snprintf(path, sizeof(path), "%s/device", entry->d_name);
		if (entry->d_name[0] == '.' || faccessat(fd, path, F_OK, 0) < 0)
			continue;
		snprintf(path, sizeof(path), "%s/addr_assign_type", entry->d_name);
		if (fs_read_at(fd, path, VALUE_MAX - 1, &text) == 0 && text.data)
			snprintf(assigned, sizeof(assigned), "%.1s", text.data);
		snprintf(path, sizeof(path), "%s/address", entry->d_name);
		value_read(fd, path, value);
		if (*value && !strcmp(assigned, "0"))
			snprintf(cards[count++], CARD_SIZE, "%.20s", value);
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	qsort(cards, count, CARD_SIZE, by_name);
	return count;
}

void stream_hardware(const char *sys, char out[STREAM_HARDWARE_SIZE])
{
	CLEANUP(cleanup_close) int fd = open(sys, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char cards[CARDS_MAX][CARD_SIZE] = {{0}}, value[VALUE_MAX];
	size_t count;

	*out = 0;
	if (fd < 0)
		return;
	value_read(fd, "class/dmi/id/product_uuid", value);
	if (*value) {
		mark("dmi", value, strlen(value), out);
		return;
	}
	value_read(fd, "firmware/devicetree/base/serial-number", value);
	if (*value) {
		mark("dt", value, strlen(value), out);
		return;
	}
	count = cards_read(fd, cards);
	if (count)
		mark("mac", cards, count * CARD_SIZE, out);
}
