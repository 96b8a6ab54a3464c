// SPDX-License-Identifier: Apache-2.0
// Fuzz room: any bytes as the configuration file. Either every value is within its declaration and what
// config_write() gives is read back, or the error names the file.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct values {
	bool on;
	uint64_t count, bytes, interval_ns;
	char *text;
	char **list;
};

static const struct option_spec specs[] = {
	{"on", OPTION_BOOL, offsetof(struct values, on), "true", 0, 0, "A switch."},
	{"count", OPTION_U64, offsetof(struct values, count), "3", 1, 1000, "A number."},
	{"bytes", OPTION_BYTES, offsetof(struct values, bytes), "64M", 1, 1ull << 40, "A size."},
	{"interval", OPTION_DURATION, offsetof(struct values, interval_ns), "5s", 1000000, 3600000000000ull,
	 "A time."},
	{"text", OPTION_STRING, offsetof(struct values, text), "x", 0, 0, "A text."},
	{"list", OPTION_LIST, offsetof(struct values, list), "a,b", 0, 0, "A list."},
	{NULL, OPTION_BOOL, 0, NULL, 0, 0, NULL},
};

// Loads size bytes at data as a file; on success *ret_text is what config_write() makes of it.
static int load(const void *data, size_t size, char **ret_text, size_t *ret_length)
{
	struct values values = {0};
	struct config *config = NULL;
	char path[64], error[CONFIG_ERROR_SIZE] = "";
	int fd = memfd_create("config", MFD_CLOEXEC), err;
	FILE *out;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || config_new(&config) ||
	    config_add(config, "room", specs, &values))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = config_load_file(config, path, true, error);
	if (err && !error[0])
		abort();
	if (!err) {
		if (values.count < 1 || values.count > 1000 || !values.bytes ||
		    values.interval_ns < 1000000 || values.interval_ns > 3600000000000ull)
			abort();
		out = open_memstream(ret_text, ret_length);
		if (config_write(config, out))
			abort();
		fclose(out);
	}
	config_free(config);
	close(fd);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *first = NULL, *second = NULL;
	size_t first_length = 0, second_length = 0;

	if (!load(data, size, &first, &first_length)) {
		if (load(first, first_length, &second, &second_length)) {
			fprintf(stderr, "not read back:\n%s", first);
			abort();
		}
		free(second);
	}
	free(first);
	return 0;
}
