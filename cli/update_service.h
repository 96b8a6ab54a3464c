// SPDX-License-Identifier: Apache-2.0
// The service that runs the collector, as the updater's guard sees it: whether it is meant to run, starting it again,
// and the processes of one version.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum service_manager { SERVICE_NONE, SERVICE_SYSTEMD, SERVICE_OPENRC, SERVICE_SUPERVISE };

// Which one has the service here; library: where PREFIX/lib/tracer is.
enum service_manager service_manager_of(const char *library);

// Nobody wants it to run: it was stopped, or never started. False too when that cannot be told.
bool service_is_stopped(const char *library);

// Stops what runs and starts it, whatever state it is in. 0, -ENOENT: there is no service; other -errno: it failed.
int service_restart(const char *library);

// Has the service manager start a guard of its own beside this process, where it has one: a standby, which it starts
// again when that is killed. (The supervise script looks after its own.)
void service_start_standby(const char *library);

// Whether the process runs a program of LIBRARY/versions.
bool service_owns(const char *library, pid_t pid);

// SIGKILL to every process that runs this version's program, and to all that came from those.
void service_kill_version(const char *library, const char *version);

// Memory of the process and of all that came from it; UINT64_MAX: it is gone.
uint64_t service_memory(pid_t pid);
