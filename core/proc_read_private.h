// SPDX-License-Identifier: Apache-2.0
// Shared by core/proc_read*.c only: small files of /proc read whole, and numbers out of them.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/proc_read.h"

#define NS_PER_S 1000000000u

// A status file ends in the switches, behind CPU masks of up to 2.3 KB.
enum { PROC_TEXT_MAX = 8192 };

// Reads at most size - 1 bytes and adds a NUL; the rest of a longer file is left. Returns the length or -errno.
ssize_t proc_text_read(int directory_fd, const char *name, char *text, size_t size);

// The number behind a key; UNKNOWN when there is none.
uint64_t proc_number_after(const char *text, const char *key);
