// SPDX-License-Identifier: Apache-2.0
// Telling well-formed text from hostile bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Bytes of the well-formed UTF-8 sequence (RFC 3629: no overlong form, surrogate or value past U+10FFFF) that
// starts at text[0], 1 to 4; 0 when the bytes there are none, or length is 0.
size_t utf8_sequence(const char *text, size_t length);

// True when the sequence that utf8_sequence() measured is a control character (C0, DEL, C1): what a terminal
// could act on.
bool utf8_is_control(const char *sequence, size_t sequence_length);
