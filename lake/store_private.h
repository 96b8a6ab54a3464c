// SPDX-License-Identifier: Apache-2.0
// What the backends share.
#pragma once

#include "lake/store.h"

// Fills error (which may be NULL) and returns code.
__attribute__((format(printf, 3, 4))) int store_fail(struct store_error *error, int code, const char *format, ...);
