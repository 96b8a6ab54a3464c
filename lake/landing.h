// SPDX-License-Identifier: Apache-2.0
// The pages a browser gets: the latest runs, the way in by a one-time link. Plain HTML without script.
#pragma once

#include "lake/server.h"
#include "lake/store.h"

struct landing;

// Adds /, /login, /logout and /style.css. store is borrowed.
int landing_new(struct server *server, struct store *store, struct landing **ret_landing);
void landing_free(struct landing *landing); // takes NULL; after server_free()
