// SPDX-License-Identifier: Apache-2.0
// Test room: loads BPF objects as they are built and, when the kernel refuses one, shows the whole
// word of the verifier. Exit code 0: every object loaded.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

__attribute__((format(printf, 2, 0))) static int print_warning(enum libbpf_print_level level,
							       const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stdout, format, args) : 0;
}

// A ring or table that the collector sizes at start gets a size here.
static void size_maps(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
		if (!bpf_map__max_entries(map))
			(void)bpf_map__set_max_entries(map, 1 << 16);
}

int main(int argc, char **argv)
{
	int failed = 0;

	libbpf_set_print(print_warning);
	for (int i = 1; i < argc; i++) {
		struct bpf_object *object = bpf_object__open_file(argv[i], NULL);
		int err = object ? 0 : -1;

		if (object) {
			size_maps(object);
			err = bpf_object__load(object);
		}
		printf("%s: %s\n", argv[i], err ? strerror(err < 0 ? -err : err) : "loaded");
		failed += err != 0;
		bpf_object__close(object);
	}
	return failed != 0;
}
