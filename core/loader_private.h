// SPDX-License-Identifier: Apache-2.0
// The loader's inside: what core/loader_adopt.c does for core/loader.c.
#pragma once

#include "core/handover.h"
#include "core/loader.h"

// Of the programs that would be loaded, their read-only data, which of them, and the size of the ring. 0 without any.
uint64_t loader_hash(const struct loader *loader, uint64_t ring_bytes);
// Writes down the links of a module that was attached.
void loader_links_note(struct loaded_module *loaded);
// Gives an opened module, instead of loading it, the maps and links of the same programs. 0 or -errno.
int loader_adopt(struct loaded_module *loaded, const struct handover_offer *offer);
// What loader_adopt() took.
void loader_release(struct loaded_module *loaded);
