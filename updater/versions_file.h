// SPDX-License-Identifier: Apache-2.0
// What a version's file has besides its bytes. Used by updater/versions.c only.
#pragma once

#include "updater/versions.h"

// Gives fd the owner, mode, capabilities and SELinux label of model; -1: root's, 0755. Order matters to the kernel: a
// change of the owner takes capabilities away. 0 or -errno, with why.
int versions_file_like(int fd, int model, char why[VERSIONS_WHY_SIZE]);

// The same for a file that everybody may read and nobody runs.
int versions_file_data(int fd, char why[VERSIONS_WHY_SIZE]);
