// SPDX-License-Identifier: Apache-2.0
// From rules to maps. Nothing is decided here: what the kernel cannot express is not accepted by the rules' grammar.
#include "core/filter.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "bpf/filter_policy.h"

struct filter_fill {
	struct loader *loader;
	const struct cgroup_table *cgroups;
	const struct rules_filter_entry *entry; // a cgroup path being expanded
	uint64_t only_id; // a cgroup that was just made; 0: all
	const char *only_path;
	uint32_t entries; // of the rules; one for a cgroup may still have no key
	bool include;
	int error;
};

static const uint32_t config_key;

static void key_add(struct filter_fill *fill, const struct filter_key *key)
{
	uint8_t policy = fill->entry->action == RULES_FILTER_INCLUDE ? FILTER_INCLUDE : FILTER_EXCLUDE;

	if (bpf_map_update_elem(fill->loader->filter_rules_fd, key, &policy, BPF_ANY) < 0 && !fill->error)
		fill->error = errno == E2BIG ? -ENOSPC : -errno;
}

static bool path_below(const char *path, const char *root)
{
	size_t length = strlen(root);

	while (length > 1 && root[length - 1] == '/')
		length--;
	if (length <= 1)
		return true;
	return !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static void cgroup_add(void *context, struct cgroup *cgroup)
{
	struct filter_fill *fill = context;
	struct filter_key key = { .field = FILTER_CGROUP, .number = cgroup->id };

	if (!cgroup->removed && path_below(cgroup->path, fill->entry->value))
		key_add(fill, &key);
}

static void cgroups_add(struct filter_fill *fill)
{
	struct filter_key key = { .field = FILTER_CGROUP, .number = fill->only_id };

	if (!fill->only_id && fill->cgroups)
		cgroup_each((struct cgroup_table *)fill->cgroups, cgroup_add, fill);
	else if (fill->only_id && path_below(fill->only_path, fill->entry->value))
		key_add(fill, &key);
}

static void entry_add(void *context, const struct rules_filter_entry *entry)
{
	struct filter_fill *fill = context;
	struct filter_key key = { .field = FILTER_COMM };

	fill->entry = entry;
	fill->entries++;
	fill->include |= entry->action == RULES_FILTER_INCLUDE;
	if (entry->field == RULES_FILTER_CGROUP) {
		cgroups_add(fill);
		return;
	}
	if (fill->only_id)
		return;
	if (entry->field == RULES_FILTER_UID) {
		key.field = FILTER_UID;
		key.number = entry->uid;
	} else {
		// At exec the name is the file's, cut to 15 bytes.
		memcpy(key.comm, entry->value, strnlen(entry->value, sizeof(key.comm) - 1));
	}
	key_add(fill, &key);
}

static void rules_clear(int fd)
{
	struct filter_key key;

	while (!bpf_map_get_next_key(fd, NULL, &key) && !bpf_map_delete_elem(fd, &key))
		;
}

int filter_apply(struct loader *loader, const struct rules *rules, const struct cgroup_table *cgroups)
{
	struct filter_fill fill = { .loader = loader, .cgroups = cgroups };
	struct filter_config config = { .default_policy = FILTER_INCLUDE };

	if (loader->filter_config_fd < 0)
		return 0;
	rules_clear(loader->filter_rules_fd);
	if (rules)
		rules_filter(rules, entry_add, &fill);
	if (fill.error)
		return fill.error;
	config.active = fill.entries > 0;
	config.rules = fill.entries;
	config.seeding = config.active;
	config.whole = 1; // what was kept out until now is not known
	if (fill.include)
		config.default_policy = FILTER_EXCLUDE;
	return bpf_map_update_elem(loader->filter_config_fd, &config_key, &config, BPF_ANY);
}

int filter_cgroup_made(struct loader *loader, const struct rules *rules, uint64_t id, const char *path)
{
	struct filter_fill fill = { .loader = loader, .only_id = id, .only_path = path };

	if (loader->filter_rules_fd < 0 || !rules)
		return 0;
	rules_filter(rules, entry_add, &fill);
	return fill.error;
}

void filter_seeded(struct loader *loader)
{
	struct filter_config config;

	if (loader->filter_config_fd < 0 ||
	    bpf_map_lookup_elem(loader->filter_config_fd, &config_key, &config) < 0)
		return;
	config.seeding = 0;
	config.whole = config.active;
	bpf_map_update_elem(loader->filter_config_fd, &config_key, &config, BPF_ANY);
}

int filter_tree(int config_fd)
{
	struct filter_config config = { .active = 1, .default_policy = FILTER_EXCLUDE };

	return config_fd < 0 ? 0 : bpf_map_update_elem(config_fd, &config_key, &config, BPF_ANY);
}

int filter_process(struct loader *loader, uint32_t pid, bool include)
{
	struct filter_process process = { .pid = pid };
	uint8_t policy = FILTER_INCLUDE;

	if (!include)
		return bpf_map_delete_elem(loader->filter_processes_fd, &process);
	return bpf_map_update_elem(loader->filter_processes_fd, &process, &policy, BPF_ANY);
}
