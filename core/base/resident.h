// SPDX-License-Identifier: Apache-2.0
// What of the program's own file is resident: the code and constants of the set-up, and of every command that this
// process is not, come in large pieces around what is touched, and stay.
#pragma once

enum { RESIDENT_CHUNK_BYTES = 64 * 1024 };

// Gives all of them back: what is still used comes back from the page cache with its next touch, at one page fault for
// each chunk, the rest does not. For a process that lives long and makes no core dumps, once it is set up. Written
// memory stays as it is.
void resident_release(void);
