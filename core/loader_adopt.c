// SPDX-License-Identifier: Apache-2.0
// Loader, between two images: the same programs are not loaded twice, their maps and links only change hands; of other
// programs the counts of living processes are carried over. What a descriptor is, is never taken on trust: libbpf asks
// the kernel for each map's shape.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/loader_private.h"

enum { MERGE_KEY_MAX = 64, MERGE_VALUE_MAX = 512 };

// The generated tables have elements of their own sizes.
static const struct bpf_map_skeleton *map_at(const struct bpf_object_skeleton *skeleton, int i)
{
	return (const void *)((const char *)skeleton->maps + (size_t)i * (size_t)skeleton->map_skel_sz);
}

static const struct bpf_prog_skeleton *program_at(const struct bpf_object_skeleton *skeleton, int i)
{
	return (const void *)((const char *)skeleton->progs + (size_t)i * (size_t)skeleton->prog_skel_sz);
}

static bool read_only(const struct bpf_map_skeleton *map)
{
	return strstr(map->name, ".rodata") != NULL;
}

static bool is_iterator(const struct bpf_program *program)
{
	return !strncmp(bpf_program__section_name(program), "iter/", 5);
}

static uint64_t module_hash(uint64_t hash, const struct bpf_object_skeleton *skeleton)
{
	hash = handover_hash(hash, skeleton->data, skeleton->data_sz);
	for (int i = 0; i < skeleton->map_cnt; i++) {
		size_t size = 0;
		const void *value = read_only(map_at(skeleton, i))
					    ? bpf_map__initial_value(*map_at(skeleton, i)->map, &size)
					    : NULL;

		hash = handover_hash(hash, value, value ? size : 0);
	}
	for (int i = 0; i < skeleton->prog_cnt; i++) {
		bool loads = bpf_program__autoload(*program_at(skeleton, i)->prog);

		hash = handover_hash(hash, &loads, sizeof(loads));
	}
	return hash;
}

uint64_t loader_hash(const struct loader *loader, uint64_t ring_bytes)
{
	uint64_t hash = handover_hash(UINT64_C(14695981039346656037), &ring_bytes, sizeof(ring_bytes));
	bool any = false;

	for (size_t i = 0; i < loader->count; i++) {
		const struct loaded_module *loaded = &loader->modules[i];

		if (loaded->state != MODULE_RUNNING || !loaded->skeleton)
			continue;
		any = true;
		hash = handover_hash(hash, &loaded->module->id, sizeof(loaded->module->id));
		hash = module_hash(hash, loaded->skeleton);
	}
	return any ? hash : 0;
}

static void link_add(struct loaded_module *loaded, const struct bpf_prog_skeleton *program, int fd)
{
	if (fd < 0 || loaded->link_count == MODULE_LINKS_MAX)
		return;
	loaded->links[loaded->link_count++] = (struct module_link){ program->name, fd };
	if (is_iterator(*program->prog))
		loaded->host.iterator_fd = fd;
}

void loader_links_note(struct loaded_module *loaded)
{
	for (int i = 0; i < loaded->skeleton->prog_cnt; i++) {
		const struct bpf_prog_skeleton *program = program_at(loaded->skeleton, i);

		link_add(loaded, program, *program->link ? bpf_link__fd(*program->link) : -1);
	}
}

// User space reads and writes the global data of programs through memory that it maps.
static int memory_map(struct loaded_module *loaded, const struct bpf_map_skeleton *map, int fd)
{
	size_t size = bpf_map__value_size(*map->map);
	void *data;

	if (!map->mmaped || loaded->memory_count == MODULE_MEMORY_MAX)
		return 0;
	data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	loaded->memory[loaded->memory_count++] = (struct module_memory){ data, size };
	*map->mmaped = data;
	return 0;
}

static int map_adopt(struct loaded_module *loaded, const struct bpf_map_skeleton *map,
		     const struct handover_offer *offer)
{
	int fd, result;

	if (read_only(map))
		return 0;
	fd = handover_offer_find(offer, HANDOVER_MAP, loaded->module->id, map->name);
	if (fd < 0)
		return -ENOENT;
	result = bpf_map__reuse_fd(*map->map, fd);
	return result < 0 ? result : memory_map(loaded, map, bpf_map__fd(*map->map));
}

int loader_adopt(struct loaded_module *loaded, const struct handover_offer *offer)
{
	const struct bpf_object_skeleton *skeleton = loaded->skeleton;
	int result = 0;

	loaded->adopted = true;
	for (int i = 0; i < skeleton->map_cnt && !result; i++)
		result = map_adopt(loaded, map_at(skeleton, i), offer);
	for (int i = 0; i < skeleton->prog_cnt && !result; i++) {
		const struct bpf_prog_skeleton *program = program_at(skeleton, i);
		int fd = handover_offer_find(offer, HANDOVER_LINK, loaded->module->id, program->name);

		if (!bpf_program__autoload(*program->prog))
			continue;
		fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			result = -ENOENT;
		link_add(loaded, program, fd);
	}
	return result;
}

void loader_release(struct loaded_module *loaded)
{
	for (size_t i = 0; i < loaded->memory_count; i++)
		munmap(loaded->memory[i].data, loaded->memory[i].size);
	for (size_t i = 0; loaded->adopted && i < loaded->link_count; i++)
		close(loaded->links[i].fd);
	loaded->memory_count = loaded->link_count = 0;
}

void loader_offer(const struct loader *loader, struct handover_offer *offer)
{
	offer->bpf_hash = loader->hash;
	for (size_t i = 0; i < loader->count; i++) {
		const struct loaded_module *loaded = &loader->modules[i];

		if (loaded->state != MODULE_RUNNING)
			continue;
		offer->modules |= 1ull << loaded->module->id;
		for (int at = 0; loaded->skeleton && at < loaded->skeleton->map_cnt; at++) {
			const struct bpf_map_skeleton *map = map_at(loaded->skeleton, at);

			if (!read_only(map))
				handover_offer_add(offer, HANDOVER_MAP, loaded->module->id, map->name,
						   bpf_map__fd(*map->map));
		}
		for (size_t at = 0; at < loaded->link_count; at++)
			handover_offer_add(offer, HANDOVER_LINK, loaded->module->id, loaded->links[at].name,
					   loaded->links[at].fd);
	}
}

// Entries of a hash map of the same shape, that the own one has none of.
static void map_merge(const struct bpf_map *map, int old_fd)
{
	struct bpf_map_info info = { 0 };
	_Alignas(8) char key[MERGE_KEY_MAX], next[MERGE_KEY_MAX], value[MERGE_VALUE_MAX];
	uint32_t size = sizeof(info);
	int fd = bpf_map__fd(map), result;

	if (bpf_map_get_info_by_fd(old_fd, &info, &size) || info.type != BPF_MAP_TYPE_HASH ||
	    info.key_size != bpf_map__key_size(map) || info.value_size != bpf_map__value_size(map) ||
	    info.key_size > sizeof(key) || info.value_size > sizeof(value))
		return;
	for (result = bpf_map_get_next_key(old_fd, NULL, next); !result;) {
		memcpy(key, next, info.key_size);
		result = bpf_map_get_next_key(old_fd, key, next);
		if (!bpf_map_lookup_elem(old_fd, key, value))
			bpf_map_update_elem(fd, key, value, BPF_NOEXIST);
	}
}

// Not proc's partings: a process that has none ends all the same, with the CPU time of its exit record as an estimate.
void loader_maps_merge(struct loader *loader, const struct handover_offer *offer)
{
	static const char *const carried[] = { "thread_sums", "filter_processes", "mem_stalls", "stalls_open" };

	for (size_t i = 0; i < loader->count && !loader->adopted; i++) {
		const struct loaded_module *loaded = &loader->modules[i];

		for (size_t at = 0; loaded->skeleton && at < sizeof(carried) / sizeof(carried[0]); at++) {
			const struct bpf_map *map =
				bpf_object__find_map_by_name(*loaded->skeleton->obj, carried[at]);
			int fd = handover_offer_find(offer, HANDOVER_MAP, loaded->module->id, carried[at]);

			if (map && fd >= 0 && bpf_map__fd(map) >= 0)
				map_merge(map, fd);
		}
	}
}
