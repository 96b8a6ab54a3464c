// SPDX-License-Identifier: Apache-2.0
// Test room: asks the kernel whether this process may load and attach what the collector needs: a
// typed tracepoint program, which takes BTF, a verifier run and the right to trace. Exit code 0 is yes.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

int main(void)
{
	// r0 = 0; exit
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	int btf_id, prog, link;

	btf_id = libbpf_find_vmlinux_btf_id("sched_process_exit", BPF_TRACE_RAW_TP);
	if (btf_id < 0) {
		printf("no BTF of sched_process_exit: %s\n", strerror(-btf_id));
		return 1;
	}
	opts.expected_attach_type = BPF_TRACE_RAW_TP;
	opts.attach_btf_id = (__u32)btf_id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "can_bpf", "GPL", insns, 2, &opts);
	if (prog < 0) {
		printf("program refused: %s\n", strerror(errno));
		return 1;
	}
	link = bpf_raw_tracepoint_open(NULL, prog);
	if (link < 0) {
		printf("attach refused: %s\n", strerror(errno));
		return 1;
	}
	puts("BPF loads and attaches");
	return 0;
}
