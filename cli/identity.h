// SPDX-License-Identifier: Apache-2.0
// Where what makes this host this host lies: cli/identity.c shows and resets it, cli/image.c takes it out of an image.
#pragma once

#include <stdbool.h>

struct config;

// As the collector's configuration has them; strings belong to the config.
struct collect_places {
	struct config *config; // free it when done, on failure too
	const char *spool;
	const char *state; // "" the spool's stream directory
	const char *token_file, *client_cert, *client_key;
	const char *status_socket;
};

// cli/collect.c: reads file (NULL: the usual one) and the environment. 0, or an exit code after a message.
int collect_places_read(const char *command, const char *file, struct collect_places *ret_places);

// The directory of the identity, in out.
void identity_directory(const struct collect_places *places, char *out, unsigned long size);

// Takes the locks of the collector and the streamer, so that neither works while this process lives. true: they are
// ours, or there is nothing to lock. false: one of them runs.
bool identity_lock(const struct collect_places *places);
