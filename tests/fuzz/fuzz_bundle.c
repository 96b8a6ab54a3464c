// SPDX-License-Identifier: Apache-2.0
// Any bytes as a bundle: read or refused with a reason; entries lie within the file, do not overlap, and their bytes can be read.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "updater/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : abort())

static int on_bytes(void *context, const void *data, size_t length)
{
	(void)data;
	*(uint64_t *)context += length;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("bundle", MFD_CLOEXEC);
	char path[64], why[BUNDLE_WHY_SIZE] = "";
	struct bundle bundle;
	uint64_t end = 0;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (bundle_open(path, &bundle, why) < 0) {
		MUST(why[0]);
	} else {
		for (size_t i = 0; i < bundle.count; i++) {
			const struct bundle_entry *entry = &bundle.entries[i];
			uint64_t got = 0;

			MUST(entry->offset > end && entry->offset + entry->size < size && !strstr(entry->name, " "));
			MUST(bundle_find(&bundle, entry->name) == entry);
			MUST(bundle_read(&bundle, entry, on_bytes, &got) == 0 && got == entry->size);
			end = entry->offset + entry->size;
		}
		bundle_close(&bundle);
	}
	close(fd);
	return 0;
}
