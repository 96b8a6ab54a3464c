// SPDX-License-Identifier: Apache-2.0
// The loader room: every BPF object enters the kernel here and nowhere else. Programs whose tracepoint this kernel
// lacks are left out one by one; shared maps are made with the first object and lent to the rest by name.
#include "core/loader.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/filter.h"
#include "core/handover.h"
#include "core/loader_private.h"
#include "core/probe.h"

struct shared_map {
	const char *name;
	size_t offset; // of its descriptor in struct loader
};

static const struct shared_map shared_maps[] = {
	{ "ring_lifecycle", offsetof(struct loader, ring_lifecycle_fd) },
	{ "ring_detail", offsetof(struct loader, ring_detail_fd) },
	{ "ring_counts", offsetof(struct loader, ring_counts_fd) },
	{ "lost_totals", offsetof(struct loader, lost_totals_fd) },
	{ "filter_config", offsetof(struct loader, filter_config_fd) },
	{ "filter_rules", offsetof(struct loader, filter_rules_fd) },
	{ "filter_processes", offsetof(struct loader, filter_processes_fd) },
};

const char *module_state_name(enum module_state state)
{
	static const char *const names[] = { "off", "running", "unsupported", "failed" };

	return names[state];
}

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char text[512];

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libbpf: %s", text);
	return 0;
}

static int *shared_fd(struct loader *loader, const struct shared_map *map)
{
	return (int *)((char *)loader + map->offset);
}

static int maps_lend(struct loader *loader, struct bpf_object *object, uint64_t ring_bytes)
{
	for (size_t i = 0; i < sizeof(shared_maps) / sizeof(shared_maps[0]); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, shared_maps[i].name);
		int fd = *shared_fd(loader, &shared_maps[i]);
		int result = 0;

		if (!map)
			continue;
		if (fd >= 0)
			result = bpf_map__reuse_fd(map, fd);
		else if (!strcmp(shared_maps[i].name, "ring_lifecycle"))
			result = bpf_map__set_max_entries(map, (__u32)ring_bytes);
		if (result < 0)
			return result;
	}
	return 0;
}

static void maps_keep(struct loader *loader, struct bpf_object *object)
{
	for (size_t i = 0; i < sizeof(shared_maps) / sizeof(shared_maps[0]); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(object, shared_maps[i].name);
		int *fd = shared_fd(loader, &shared_maps[i]);

		if (map && *fd < 0)
			*fd = bpf_map__fd(map);
	}
}

// A map of one scratch entry for each CPU.
static void maps_size(struct bpf_object *object, uint32_t cpu_count)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, "exec_scratch");

	if (map)
		bpf_map__set_max_entries(map, cpu_count);
}

static void programs_fit(struct loaded_module *loaded, struct bpf_object *object, const struct btf *btf)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object) {
		const char *section = bpf_program__section_name(program);

		if (strncmp(section, "tp_btf/", 7) || probe_tracepoint(btf, section + 7, 0))
			continue;
		bpf_program__set_autoload(program, false);
		snprintf(loaded->why, sizeof(loaded->why), "this kernel has no tracepoint %s", section + 7);
	}
}

static void module_failed(struct loaded_module *loaded, const char *step, int error)
{
	loaded->state = MODULE_FAILED;
	snprintf(loaded->why, sizeof(loaded->why), "%s: %s", step, strerror(-error));
}

static void module_load(struct loader *loader, struct loaded_module *loaded, const struct loader_options *options)
{
	struct bpf_object_skeleton *skeleton = loaded->skeleton;
	struct bpf_object *object = *skeleton->obj;
	bool first = loader->filter_config_fd < 0;
	int result;

	result = maps_lend(loader, object, options->ring_bytes);
	if (result < 0) {
		module_failed(loaded, "sharing the rings", result);
		return;
	}
	result = bpf_object__load_skeleton(skeleton);
	if (result < 0) {
		module_failed(loaded, "the kernel refused its programs", result);
		return;
	}
	maps_keep(loader, object);
	// Before anything is attached: what is not wanted never shows.
	if (first)
		result = options->tree ? filter_tree(loader->filter_config_fd)
				       : filter_apply(loader, options->filter, options->cgroups);
	if (!result && options->offer)
		loader_maps_merge(loader, options->offer);
	if (!result)
		result = bpf_object__attach_skeleton(skeleton);
	if (result < 0)
		module_failed(loaded, "attaching its programs", result);
	else
		loader_links_note(loaded);
}

static void module_open(struct loaded_module *loaded, const struct btf *btf)
{
	const struct module *module = loaded->module;
	int result = module->supported(loaded->host.env, loaded->why);

	if (result < 0) {
		loaded->state = MODULE_UNSUPPORTED;
		return;
	}
	loaded->data = calloc(1, module->state_size ? module->state_size : 1);
	if (!loaded->data) {
		module_failed(loaded, "starting", -ENOMEM);
		return;
	}
	result = module->open(loaded->data, &loaded->host, &loaded->skeleton);
	if (result < 0) {
		module_failed(loaded, "opening", result);
		return;
	}
	loaded->state = MODULE_RUNNING;
	if (!loaded->skeleton)
		return;
	programs_fit(loaded, *loaded->skeleton->obj, btf);
	maps_size(*loaded->skeleton->obj, loaded->host.env->cpu_count);
}

static void module_go(struct loaded_module *loaded, int (*function)(void *state), const char *step)
{
	int result = function && loaded->state == MODULE_RUNNING ? function(loaded->data) : 0;

	if (result < 0)
		module_failed(loaded, step, result);
}

static void module_start(struct loader *loader, struct loaded_module *loaded, const struct loader_options *options)
{
	int result;

	if (loaded->state == MODULE_RUNNING && loaded->skeleton) {
		if (!loader->adopted) {
			module_load(loader, loaded, options);
		} else {
			result = loader_adopt(loaded, options->offer);
			if (result < 0)
				module_failed(loaded, "taking over its maps", result);
			else
				maps_keep(loader, *loaded->skeleton->obj);
		}
	}
	if (!options->offer)
		module_go(loaded, loaded->module->start, "starting");
}

void loader_resume(struct loader *loader, bool resumed)
{
	for (size_t i = 0; i < loader->count; i++) {
		const struct module *module = loader->modules[i].module;

		module_go(&loader->modules[i], resumed ? module->resume : module->start, "going on");
		if (loader->modules[i].state == MODULE_FAILED)
			module->close(loader->modules[i].data);
	}
	filter_seeded(loader);
}

int loader_start(struct loader *loader, const struct btf *btf, const struct host_env *env, struct agent *agent,
		 const struct loader_options *options)
{
	*loader = (struct loader){ 0 };
	for (size_t i = 0; i < sizeof(shared_maps) / sizeof(shared_maps[0]); i++)
		*shared_fd(loader, &shared_maps[i]) = -1;
	libbpf_set_print(print_libbpf);
	for (size_t i = 0; modules[i] && loader->count < LOADED_MODULES_MAX; i++) {
		struct loaded_module *loaded = &loader->modules[loader->count++];

		loaded->module = modules[i];
		loaded->host = (struct module_host){ .env = env,
						     .agent = agent,
						     .options = options->modules->values[modules[i]->id],
						     .iterator_fd = -1 };
		module_open(loaded, btf);
	}
	loader->hash = loader_hash(loader, options->ring_bytes);
	loader->adopted = options->offer && options->offer->bpf_hash == loader->hash;
	for (size_t i = 0; i < loader->count; i++) {
		struct loaded_module *loaded = &loader->modules[i];

		module_start(loader, loaded, options);
		if (loaded->module->id == MODULE_PROC && !options->offer)
			filter_seeded(loader);
		if (loaded->state == MODULE_FAILED)
			loaded->module->close(loaded->data);
	}
	return loader_find(loader, MODULE_PROC) ? 0 : -ENOTSUP;
}

void loader_stop(struct loader *loader)
{
	for (size_t i = loader->count; i-- > 0;) {
		struct loaded_module *loaded = &loader->modules[i];

		if (loaded->state == MODULE_RUNNING)
			loaded->module->close(loaded->data);
		loader_release(loaded);
		free(loaded->data);
		loaded->data = NULL;
		loaded->state = MODULE_OFF;
	}
	loader->count = 0;
}

struct loaded_module *loader_find(struct loader *loader, enum module_id id)
{
	for (size_t i = 0; i < loader->count; i++) {
		if (loader->modules[i].module->id == id && loader->modules[i].state == MODULE_RUNNING)
			return &loader->modules[i];
	}
	return NULL;
}
