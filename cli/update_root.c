// SPDX-License-Identifier: Apache-2.0
// The root that a release carries inside: where trust begins on a host that was given no other. A build without one has
// none, and then `tracer update init FILE` begins.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/update.h"
#include "core/embedded.h"

int update_root_begin(const char *directory, char why[TUF_WHY_SIZE])
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/root.json", directory) >= sizeof(path))
		return tuf_fail(why, -ENAMETOOLONG, "%s: the name is too long", directory);
	if (access(path, F_OK) == 0)
		return 0;
	if (embedded_root_count == 0)
		return tuf_fail(why, -ENOENT,
				"%s: trusts no root yet, and this build has none inside; "
				"`tracer update init ROOT` begins",
				directory);
	return tuf_init(directory, embedded_root[0].data, embedded_root[0].size, why);
}
