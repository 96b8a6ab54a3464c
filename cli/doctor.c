// SPDX-License-Identifier: Apache-2.0
// `tracer doctor`: one function for each question about this host, in one table. Asks by trying where trying is
// harmless, and changes nothing: what it loads into the kernel is closed at once.

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/cgroup.h"

#define DOCTOR_SPOOL "/var/lib/tracer/spool"

enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_check {
	enum doctor_state state;
	char detail[200];
	const char *fix; // NULL: nothing to do
};

static void doctor_say(struct doctor_check *check, enum doctor_state state, const char *fix,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));

static void doctor_say(struct doctor_check *check, enum doctor_state state, const char *fix,
		       const char *format, ...)
{
	va_list list;

	check->state = state;
	check->fix = fix;
	va_start(list, format);
	vsnprintf(check->detail, sizeof(check->detail), format, list);
	va_end(list);
}

// The first line of a small file, cut at size; false when it cannot be read.
static bool doctor_line(const char *path, char *out, size_t size)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	if (fs_read(path, 65536, &text) < 0 || !text.data)
		return false;
	snprintf(out, size, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	return true;
}

// --- kernel and BPF ----------------------------------------------------------------------------------------------

static void doctor_kernel(struct doctor_check *check)
{
	struct utsname name;
	unsigned major = 0, minor = 0;

	if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		doctor_say(check, DOCTOR_WARN, NULL, "release unknown");
	else if (major < 5 || (major == 5 && minor < 8))
		doctor_say(check, DOCTOR_WARN,
			   "a kernel from 5.8 on has the ring buffer; older ones are served from "
			   "/proc",
			   "%s, %s", name.release, name.machine);
	else
		doctor_say(check, DOCTOR_OK, NULL, "%s, %s", name.release, name.machine);
}

static void doctor_btf(struct doctor_check *check)
{
	struct stat status;

	if (access("/sys/kernel/btf/vmlinux", R_OK) == 0 &&
	    stat("/sys/kernel/btf/vmlinux", &status) == 0)
		doctor_say(check, DOCTOR_OK, NULL, "%lld KiB of type information",
			   (long long)status.st_size / 1024);
	else
		doctor_say(check, DOCTOR_FAIL,
			   "use a kernel built with CONFIG_DEBUG_INFO_BTF (distributions' kernels "
			   "have it)",
			   "/sys/kernel/btf/vmlinux: %s", strerror(errno));
}

static int doctor_bpf_call(int command, union bpf_attr *attributes)
{
	int fd = (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static const char *doctor_bpf_fix(int error)
{
	return error == -EPERM ? "run it as root, or with CAP_BPF and CAP_PERFMON; in a container "
				 "allow bpf(2)"
	       : error == -ENOSYS ? "use a kernel built with CONFIG_BPF_SYSCALL"
				  : "see the kernel's log (dmesg)";
}

static void doctor_program(struct doctor_check *check)
{
	// r0 = 0; return r0
	static const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	static const char license[] = "Dual BSD/GPL";
	union bpf_attr attributes = {0};
	int error;

	attributes.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
	attributes.insn_cnt = sizeof(code) / sizeof(code[0]);
	attributes.insns = (uintptr_t)code;
	attributes.license = (uintptr_t)license;
	error = doctor_bpf_call(BPF_PROG_LOAD, &attributes);
	if (error == 0)
		doctor_say(check, DOCTOR_OK, NULL, "a small program was loaded");
	else
		doctor_say(check, DOCTOR_FAIL, doctor_bpf_fix(error),
			   "a small program could not be loaded: %s", strerror(-error));
}

static void doctor_ring(struct doctor_check *check)
{
	union bpf_attr attributes = {0};
	int error;

	attributes.map_type = BPF_MAP_TYPE_RINGBUF;
	attributes.max_entries = (uint32_t)sysconf(_SC_PAGESIZE);
	error = doctor_bpf_call(BPF_MAP_CREATE, &attributes);
	if (error == 0)
		doctor_say(check, DOCTOR_OK, NULL, "available");
	else
		doctor_say(check, DOCTOR_FAIL,
			   error == -EINVAL ? "use a kernel from 5.8 on" : doctor_bpf_fix(error),
			   "%s", strerror(-error));
}

static void doctor_capabilities(struct doctor_check *check)
{
	static const struct {
		unsigned number;
		const char *name;
	} wanted[] = {{39, "CAP_BPF"}, {38, "CAP_PERFMON"}, {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}, {0}};
	char missing[100] = "";
	uint64_t held;

	if (syscall(SYS_capget, &header, data) < 0) {
		doctor_say(check, DOCTOR_WARN, NULL, "unknown: %s", strerror(errno));
		return;
	}
	held = data[0].effective | (uint64_t)data[1].effective << 32;
	// CAP_SYS_ADMIN stands for the two BPF ones on kernels that do not know them.
	if (held & (UINT64_C(1) << CAP_SYS_ADMIN))
		held |= UINT64_C(3) << 38;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!(held & (UINT64_C(1) << wanted[i].number)))
			snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing),
				 " %s", wanted[i].name);
	}
	if (!*missing)
		doctor_say(check, DOCTOR_OK, NULL,
			   "all that are used are held; they are dropped once attached");
	else
		doctor_say(
			check, (held >> 38 & 3) == 3 ? DOCTOR_WARN : DOCTOR_FAIL,
			"start it as root; what is missing is then read from /proc or not at all",
			"missing:%s", missing);
}

static void doctor_lockdown(struct doctor_check *check)
{
	char line[120];

	if (!doctor_line("/sys/kernel/security/lockdown", line, sizeof(line)))
		doctor_say(check, DOCTOR_OK, NULL,
			   "not in this kernel, or securityfs is not mounted");
	else if (strstr(line, "[confidentiality]"))
		doctor_say(check, DOCTOR_FAIL,
			   "boot with lockdown=integrity: confidentiality forbids BPF to read the "
			   "kernel",
			   "confidentiality");
	else
		doctor_say(check, DOCTOR_OK, NULL, "%s",
			   strstr(line, "[integrity]") ? "integrity, which BPF may live with"
						       : "none");
}

static void doctor_unprivileged(struct doctor_check *check)
{
	char line[20];

	if (!doctor_line("/proc/sys/kernel/unprivileged_bpf_disabled", line, sizeof(line)))
		doctor_say(check, DOCTOR_OK, NULL, "no such setting");
	else if (!strcmp(line, "0"))
		doctor_say(
			check, DOCTOR_WARN,
			"sysctl kernel.unprivileged_bpf_disabled=2 (tracer does not need it open)",
			"0: any user may load BPF programs");
	else
		doctor_say(check, DOCTOR_OK, NULL, "%s: only the privileged load BPF programs",
			   line);
}

static void doctor_perf(struct doctor_check *check)
{
	char line[20];

	if (doctor_line("/proc/sys/kernel/perf_event_paranoid", line, sizeof(line)))
		doctor_say(check, DOCTOR_OK, NULL,
			   "perf_event_paranoid %s; root and CAP_PERFMON are not bound by it",
			   line);
	else
		doctor_say(check, DOCTOR_WARN,
			   "use a kernel built with CONFIG_PERF_EVENTS for the detail tier",
			   "no perf events in this kernel");
}

static void doctor_memlock(struct doctor_check *check)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		doctor_say(check, DOCTOR_WARN, NULL, "%s", strerror(errno));
	else if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= 64 << 20)
		doctor_say(check, DOCTOR_OK, NULL, "enough for every kernel");
	else
		doctor_say(check, DOCTOR_OK, NULL,
			   "%llu KiB; it binds BPF only before kernel 5.11, "
			   "and never root",
			   (unsigned long long)limit.rlim_cur / 1024);
}

// --- what can be read --------------------------------------------------------------------------------------------

static void doctor_cgroup(struct doctor_check *check)
{
	static const char *const names[] = {"none", "v1", "hybrid", "unified (v2)"};
	struct cgroup_table *table = NULL;
	int error = cgroup_table_new(&table);
	enum cgroup_mode mode = error < 0 ? CGROUP_MODE_NONE : cgroup_table_mode(table);

	cgroup_table_free(table);
	if (mode == CGROUP_MODE_NONE)
		doctor_say(check, DOCTOR_WARN, "mount one: mount -t cgroup2 none /sys/fs/cgroup",
			   "no cgroup file system: containers and jobs cannot be told apart");
	else
		doctor_say(check, DOCTOR_OK, NULL, "%s", names[mode]);
}

static void doctor_pressure(struct doctor_check *check)
{
	char line[120];

	if (doctor_line("/proc/pressure/cpu", line, sizeof(line)))
		doctor_say(check, DOCTOR_OK, NULL, "/proc/pressure is there");
	else
		doctor_say(check, DOCTOR_WARN, "boot with psi=1, on a kernel built with CONFIG_PSI",
			   "no /proc/pressure: no pressure figures");
}

static void doctor_delay(struct doctor_check *check)
{
	unsigned long long cpu, delay;
	char line[120];

	if (doctor_line("/proc/self/schedstat", line, sizeof(line)) &&
	    sscanf(line, "%llu %llu", &cpu, &delay) == 2)
		doctor_say(check, DOCTOR_OK, NULL,
			   "the kernel counts the time threads wait for a CPU");
	else
		doctor_say(check, DOCTOR_WARN,
			   "use a kernel built with CONFIG_SCHED_INFO (by CONFIG_SCHEDSTATS or "
			   "CONFIG_TASK_DELAY_ACCT)",
			   "no run delay in this kernel");
}

static void doctor_ptrace(struct doctor_check *check)
{
	char line[20], comm[40];

	if (!doctor_line("/proc/1/comm", comm, sizeof(comm)))
		doctor_say(check, DOCTOR_WARN, "remount /proc without hidepid, or run as root",
			   "/proc hides other users' processes");
	else if (!doctor_line("/proc/sys/kernel/yama/ptrace_scope", line, sizeof(line)) ||
		 strcmp(line, "3") != 0)
		doctor_say(check, DOCTOR_OK, NULL,
			   "other processes can be read as far as rights allow");
	else
		doctor_say(check, DOCTOR_WARN,
			   "sysctl kernel.yama.ptrace_scope=1 needs a reboot from 3",
			   "ptrace_scope 3: without BPF, paths and I/O of others stay unknown");
}

static void doctor_namespace(struct doctor_check *check)
{
	struct stat status;

	// The initial pid namespace has a fixed inode (PROC_PID_INIT_INO in include/linux/proc_ns.h).
	if (stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == 0xEFFFFFFC)
		doctor_say(check, DOCTOR_OK, NULL, "the host's own");
	else
		doctor_say(check, DOCTOR_WARN,
			   "in a container start it with the host's pid namespace (--pid=host)",
			   "inside a pid namespace: the host's processes are not seen from here");
}

// --- disk, clock, terminal -----------------------------------------------------------------------------------------

static const char *doctor_spool_path = DOCTOR_SPOOL;

static void doctor_disk(struct doctor_check *check)
{
	char path[1024], *slash;
	struct statvfs space;
	unsigned long long free_bytes;

	snprintf(path, sizeof(path), "%s", doctor_spool_path);
	// The directory is made at the first start: until then its parent tells.
	while (statvfs(path, &space) < 0) {
		slash = strrchr(path, '/');
		if (!slash || errno != ENOENT) {
			doctor_say(check, DOCTOR_FAIL, "give a directory that exists with --spool",
				   "%s: %s", doctor_spool_path, strerror(errno));
			return;
		}
		slash[slash == path ? 1 : 0] = 0;
	}
	free_bytes = (unsigned long long)space.f_bavail * space.f_frsize;
	if (space.f_flag & ST_RDONLY)
		doctor_say(check, DOCTOR_FAIL,
			   "remount it writable, or give another directory with --spool",
			   "%s is on a read-only file system", path);
	else if (free_bytes < 100 << 20)
		doctor_say(check, DOCTOR_FAIL, "make room, or give another directory with --spool",
			   "%llu MiB free at %s", free_bytes >> 20, path);
	else
		doctor_say(check, free_bytes < UINT64_C(2) << 30 ? DOCTOR_WARN : DOCTOR_OK,
			   free_bytes < UINT64_C(2) << 30
				   ? "make room, or set a lower cap for the spool"
				   : NULL,
			   "%llu MiB free at %s", free_bytes >> 20, path);
}

static void doctor_clock(struct doctor_check *check)
{
	struct timex state = {0};
	int result = adjtimex(&state);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec < 1700000000)
		doctor_say(check, DOCTOR_FAIL,
			   "set it, and run a time service (chrony, systemd-timesyncd)",
			   "the clock is years behind");
	else if (result < 0)
		doctor_say(check, DOCTOR_WARN, NULL, "synchronisation unknown: %s",
			   strerror(errno));
	else if (result == TIME_ERROR || state.status & STA_UNSYNC)
		doctor_say(check, DOCTOR_WARN, "run a time service (chrony, systemd-timesyncd)",
			   "not synchronised: records of several hosts will not line up");
	else
		doctor_say(check, DOCTOR_OK, NULL, "synchronised, estimated error %ld us",
			   (long)state.esterror);
}

static void doctor_locale(struct doctor_check *check)
{
	struct ui ui;

	ui_init(&ui, stdout);
	if (ui.unicode)
		doctor_say(check, DOCTOR_OK, NULL, "UTF-8: lines and marks are drawn");
	else
		doctor_say(check, DOCTOR_WARN, "export LC_ALL=C.UTF-8 for drawn lines",
			   "not UTF-8: reports use plain ASCII");
}

static const struct {
	const char *name;
	void (*run)(struct doctor_check *check);
} doctor_checks[] = {
	{"kernel", doctor_kernel},
	{"btf", doctor_btf},
	{"bpf", doctor_program},
	{"ring buffer", doctor_ring},
	{"capabilities", doctor_capabilities},
	{"lockdown", doctor_lockdown},
	{"unprivileged bpf", doctor_unprivileged},
	{"perf events", doctor_perf},
	{"memlock", doctor_memlock},
	{"cgroups", doctor_cgroup},
	{"pressure", doctor_pressure},
	{"run delay", doctor_delay},
	{"process access", doctor_ptrace},
	{"pid namespace", doctor_namespace},
	{"spool disk", doctor_disk},
	{"clock", doctor_clock},
	{"locale", doctor_locale},
};

static void doctor_print(const struct ui *ui, const char *name, const struct doctor_check *check)
{
	static const enum ui_style styles[] = {UI_GOOD, UI_WARN, UI_BAD};
	static const char *const states[] = {"ok", "warn", "fail"};
	char detail[800];

	ui_fit(ui, detail, sizeof(detail), check->detail, ui->width - 26);
	fprintf(ui->out, "%s%-4s%s  %-17s %s\n", ui_style(ui, styles[check->state]),
		states[check->state], ui_style(ui, UI_PLAIN), name, detail);
	if (check->fix)
		fprintf(ui->out, "%24s%s%s%s\n", "", ui_style(ui, UI_DIM), check->fix,
			ui_style(ui, UI_PLAIN));
}

static void doctor_print_json(const char *name, const struct doctor_check *check)
{
	static const char *const states[] = {"ok", "warn", "fail"};
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);

	json_open_object(&json);
	json_put_string(&json, "check", name);
	json_put_string(&json, "state", states[check->state]);
	json_put_string(&json, "detail", check->detail);
	json_put_string(&json, "fix", check->fix);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&text) == 0)
		fwrite(text.data, 1, text.length, stdout);
}

int command_doctor(int argc, char **argv)
{
	struct args args = args_of("doctor", argc, argv);
	bool json = false, failed = false;
	struct ui ui;

	while (args_next(&args)) {
		json |= args_is(&args, "json");
		doctor_spool_path = args_is(&args, "spool") ? args.value : doctor_spool_path;
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count)
		return args_usage(&args, "takes no operand");
	ui_init(&ui, stdout);
	for (size_t i = 0; i < sizeof(doctor_checks) / sizeof(doctor_checks[0]); i++) {
		struct doctor_check check = {0};

		doctor_checks[i].run(&check);
		failed |= check.state == DOCTOR_FAIL;
		if (json)
			doctor_print_json(doctor_checks[i].name, &check);
		else
			doctor_print(&ui, doctor_checks[i].name, &check);
	}
	return failed ? EXIT_NO : EXIT_OK;
}
