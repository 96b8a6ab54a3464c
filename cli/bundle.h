// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer bundle`.
#pragma once

#include "updater/client.h"

// Calls visit with name and description of every target of targets.json and of the roles delegated below it, at most
// TUF_DELEGATIONS_MAX. The roles are fetched and verified on the way. 0, or the first failure; why says which, or what
// visit put there.
int bundle_each_target(struct tuf_client *client, int (*visit)(void *context, yyjson_val *key, yyjson_val *value),
		       void *context, char why[TUF_WHY_SIZE]);

// Serves the files of a directory over HTTP until it is told to end. Returns an exit code.
int bundle_serve(const char *directory, const char *listen);
