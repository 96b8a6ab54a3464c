// SPDX-License-Identifier: Apache-2.0
// Cleanup attributes: a local is released when its scope ends. Never mixed with goto in one function.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// CLEANUP(fn): fn is called with a pointer to the variable when it goes out of scope.
#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}
