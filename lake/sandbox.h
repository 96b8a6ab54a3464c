// SPDX-License-Identifier: Apache-2.0
// The datalake's cage for files: Landlock. System calls are core/privs_datalake.c.
#pragma once

// From here on this thread, and those it starts, may touch nothing but what lies in the directories (read and
// write) and the files (read; the folder they lie in too, as they are often replaced whole). NULL and empty paths
// are passed over. Needs no_new_privs. -ENOSYS, -EOPNOTSUPP: the kernel has no Landlock.
int sandbox_files(const char *const directories[2], const char *const files[3]);
