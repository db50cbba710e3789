// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Writes when the runtime of a Go program stopped all goroutines, into an array that overwrites
 * its oldest entries. The programs run at the entries of two functions of the runtime:
 * runtime.stopTheWorldWithSema and runtime.startTheWorldWithSema.
 */
#include "barrier.h"

/* arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h: the first argument of a Go
 * function is in a register that C does not use for it on x86. */
struct pt_regs___ax {
	unsigned long ax;
} __attribute__((preserve_access_index));

struct pt_regs___regs {
	u64 regs[31];
} __attribute__((preserve_access_index));

#define HAS(type, field) __builtin_preserve_field_info(((struct type *)0)->field, 2)

static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;

/* The numbers must match src/stops.rs. */
enum { STOPS = 4096, PROCESSES = 1024 };

struct stop {
	u64 since;
	u64 until;		/* 0 while it is written */
	u32 process;
	u32 by;			/* the thread that stopped the others */
	u64 reason;
};

/* The stops in progress, by process. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, PROCESSES);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct stop);
} open SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, STOPS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct stop);
} stops SEC(".maps");

/* The number of stops so far. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} count SEC(".maps");

INLINE u64 first_argument(void *regs)
{
	u64 value = ~0ULL;

	/* The compiler would merge both reads into one at a computed place, which the verifier
	 * refuses. */
	if (HAS(pt_regs___ax, ax))
		bpf_probe_read_kernel(&value, sizeof(value), &((struct pt_regs___ax *)regs)->ax);
	else if (HAS(pt_regs___regs, regs))
		bpf_probe_read_kernel(&value, sizeof(value), &((struct pt_regs___regs *)regs)->regs[0]);
	return value;
}

SEC("uprobe") int stopping(void *regs)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 process = id >> 32;
	struct stop stop = {
		.since = bpf_ktime_get_ns(),
		.process = process,
		.by = id,
		.reason = first_argument(regs),
	};

	bpf_map_update_elem(&open, &process, &stop, 0);
	return 0;
}

SEC("uprobe") int starting(void *regs)
{
	u32 zero = 0, process = bpf_get_current_pid_tgid() >> 32, place;
	struct stop *stop = bpf_map_lookup_elem(&open, &process), *entry;
	u64 *number = bpf_map_lookup_elem(&count, &zero);

	if (!stop || !number)
		return 0;
	place = __sync_fetch_and_add(number, 1) % STOPS;
	entry = bpf_map_lookup_elem(&stops, &place);
	if (!entry)
		return 0;
	*(volatile u64 *)&entry->until = 0;
	barrier();
	entry->since = stop->since;
	entry->process = process;
	entry->by = stop->by;
	entry->reason = stop->reason;
	barrier();
	*(volatile u64 *)&entry->until = bpf_ktime_get_ns();
	bpf_map_delete_elem(&open, &process);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
