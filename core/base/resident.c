// SPDX-License-Identifier: Apache-2.0
// Base: the program's resident pages. Only segments that nobody can write are given back: their pages are the file's.
// It must not touch another mapping, and reads no file: the program's own headers say where they are.
#include "core/base/resident.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK = RESIDENT_CHUNK_BYTES };

extern const char __ehdr_start[] __attribute__((visibility("hidden"))); // the linker's: where the file begins

// A fault maps the pages around the one it is for: 64 KiB of them, since Linux 6.18 all that lie in the same piece of
// the page cache, up to 2 MiB, but none outside the mapping. So the segment becomes mappings of that size, by a
// property in which neighbours differ and that means nothing here: whether a core dump, which this process may not
// make, has them.
static void chunks_part(uintptr_t first, uintptr_t end)
{
	for (uintptr_t at = first; at < end; at += 2 * CHUNK)
		madvise((void *)at, end - at < CHUNK ? end - at : CHUNK, MADV_DONTDUMP);
}

void resident_release(void)
{
	const char *start = __ehdr_start;
	const ElfW(Ehdr) *file = (const void *)start;
	const ElfW(Phdr) *headers = (const void *)(start + file->e_phoff);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < file->e_phnum; i++) {
		uintptr_t first = (uintptr_t)(start + headers[i].p_vaddr) & ~(page - 1);
		uintptr_t end = (uintptr_t)(start + headers[i].p_vaddr) + headers[i].p_memsz;

		if (headers[i].p_type != PT_LOAD || headers[i].p_flags & PF_W)
			continue;
		end = (end + page - 1) & ~(page - 1);
		chunks_part(first, end);
		madvise((void *)first, end - first, MADV_DONTNEED);
	}
}
