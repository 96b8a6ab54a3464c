// SPDX-License-Identifier: Apache-2.0
// What the streamer needs and only its starter may open or read: directories handed to its user, secrets.
#pragma once

#include "core/stream_private.h"

enum { STREAM_EXIT_AGAIN = 75 }; // the process wants to begin anew

// Fills the setup; on failure nothing is held, and why has a sentence. -EINVAL: a setting is to blame.
int stream_prepare(const struct stream_options *options, const char *spool_directory,
		   struct stream_setup *setup, char why[STREAM_WHY_SIZE]);
void stream_setup_free(struct stream_setup *setup);
