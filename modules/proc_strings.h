// SPDX-License-Identifier: Apache-2.0
// The strings of lifecycle records, checked before use.
#pragma once

#include "bpf/proc.h"
#include "core/process.h"

enum { PROC_STRINGS_SIZE = 2 * (4096 + 256 + 8) };

struct proc_strings {
	struct image_strings image; // points into the record and into text
	char text[PROC_STRINGS_SIZE];
};

// -EBADMSG when lengths do not fit the record or a string has no end.
int proc_strings_exec(const struct event_exec *event, struct proc_strings *ret_strings);

// Gives a process that never called exec the working directory in its exit record.
int proc_strings_exit_cwd(const struct event_exit *event, struct process *process);
