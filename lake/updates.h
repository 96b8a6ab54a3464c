// SPDX-License-Identifier: Apache-2.0
// The datalake as a mirror of updates: a published tree (metadata/ and targets/) below /updates/. Anyone may read it:
// it is signed, a host believes none of it before its verifier does, and a mirror has no key.
#pragma once

#include "lake/server.h"

struct updates;

// directory: of metadata/ and targets/; opened here, before files are confined. -ENOENT and the like.
int updates_new(const char *directory, struct server *server, struct updates **ret_updates);
void updates_free(struct updates *updates); // takes NULL; after server_free()
