// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Records where the kernel was at the end of a delay: the stack that a late timer's
 * interrupt stopped, and the stack of a thread that is switched out for a watched one
 * after a long wait. These events are rare; each kind has a small ring.
 */
#include "barrier.h"
#include "jobs.h"

/* Set by the loader. */
const volatile u64 late_ns = ~0ULL;	/* what is later is recorded */
const volatile u32 pid_limit = 0;

enum { TIMER = 1, BLOCKER };
/* Records of each kind, a power of two. */
enum { FRAMES = 24, RECORDS = 512, WAITING = 4096 };

struct record {
	u64 time;
	u64 late;
	u64 function;		/* of a timer */
	u32 sequence;		/* 0 while it is written */
	u32 kind;
	u32 cpu;
	u32 pid;		/* of the thread that was current */
	u32 prio;
	u32 count;		/* of frames */
	char comm[16];
	u64 frames[FRAMES];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, 2 * RECORDS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct record);
} records SEC(".maps");

/* A bit for each watched thread. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} watched SEC(".maps");

/* When watched threads were woken, or lost their CPU. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, WAITING);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} waiting SEC(".maps");

/* When this CPU last switched to a watched thread. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} given SEC(".maps");

/* When timers were started whose time had already passed, by their addresses. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, WAITING);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, u64);
} started SEC(".maps");

/* For this long after that, timers of other sleeps matter as well. */
enum { MATTERS_NS = 100000000 };

u64 begun[2];

/* include/linux/hrtimer.h: its timer is its first member. */
struct hrtimer_sleeper {
	struct task_struct *task;
} __attribute__((preserve_access_index));

INLINE int is_watched(u32 pid)
{
	u32 place = pid / 64;
	u64 *bits = bpf_map_lookup_elem(&watched, &place);

	return bits && pid < pid_limit && *bits >> (pid % 64) & 1;
}

static __attribute__((noinline)) int put(u64 *arguments, u32 kind, u64 late, u64 function)
{
	u64 number = __sync_fetch_and_add(kind == TIMER ? &begun[0] : &begun[1], 1);
	u32 place = (number & (RECORDS - 1)) + (kind == TIMER ? 0 : RECORDS);
	struct record *record = bpf_map_lookup_elem(&records, &place);
	struct task_struct *task = bpf_get_current_task_btf();
	long bytes;

	if (!record)
		return 0;
	*(volatile u32 *)&record->sequence = 0;
	barrier();
	record->time = bpf_ktime_get_ns();
	record->late = late;
	record->function = function;
	record->kind = kind;
	record->cpu = bpf_get_smp_processor_id();
	record->pid = task->pid;
	record->prio = task->prio;
	bpf_probe_read_kernel(record->comm, 16, task->comm);
	bytes = bpf_get_stack(arguments, record->frames, sizeof(record->frames), 0);
	record->count = bytes > 0 ? bytes / sizeof(u64) : 0;
	barrier();
	*(volatile u32 *)&record->sequence = (u32)number + 1;
	return 0;
}

/* Whether a timer wakes a watched thread from its sleep, or may delay one here. */
INLINE int concerns(const struct hrtimer___due *timer, u64 late)
{
	struct hrtimer_sleeper *sleeper = (struct hrtimer_sleeper *)timer;
	struct task_struct *task = 0;
	u32 pid = 0, zero = 0;
	u64 *at;

	/* In other timers these bytes have another meaning, and are not the address of a thread. */
	bpf_probe_read_kernel(&task, sizeof(task), &sleeper->task);
	if (task && !bpf_probe_read_kernel(&pid, sizeof(pid), &task->pid) && is_watched(pid))
		return 1;
	at = bpf_map_lookup_elem(&given, &zero);
	return !timer->is_soft && late > 2 * late_ns && at &&
	       *at + MATTERS_NS > bpf_ktime_get_ns();
}

SEC("tp_btf/hrtimer_start")
int starting(u64 *arguments)
{
	struct hrtimer___due *timer = (struct hrtimer___due *)arguments[0];
	u64 address = arguments[0], now = bpf_ktime_get_ns();
	long long late;

	if (!HAS(hrtimer___due, node) || !HAS(hrtimer___due, base))
		return 0;
	late = (long long)now + timer->base->offset - timer->node.expires;
	if (late > 0 && (u64)late > late_ns)
		bpf_map_update_elem(&started, &address, &now, 0);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int expiring(u64 *arguments)
{
	struct hrtimer___due *timer = (struct hrtimer___due *)arguments[0];
	u64 address = arguments[0], *start;
	long long now = 0, late, since_start;

	if (!HAS(hrtimer___due, node))
		return 0;
	bpf_probe_read_kernel(&now, sizeof(now), (void *)arguments[1]);
	late = now - timer->node.expires;
	if (late < 0 || (u64)late <= late_ns)
		return 0;
	/* A timer cannot be late before it is started. */
	start = bpf_map_lookup_elem(&started, &address);
	if (start) {
		since_start = bpf_ktime_get_ns() - *start;
		bpf_map_delete_elem(&started, &address);
		if (since_start < late)
			late = since_start;
		if (late < 0 || (u64)late <= late_ns)
			return 0;
	}
	if (!concerns(timer, late))
		return 0;
	put(arguments, TIMER, late,
	    HAS(hrtimer___due, function) ? (u64)timer->function : 0);
	return 0;
}

SEC("tp_btf/sched_waking")
int waking(u64 *arguments)
{
	u32 pid = ((struct task_struct *)arguments[0])->pid;
	u64 now;

	if (!is_watched(pid))
		return 0;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&waiting, &pid, &now, 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int switching(u64 *arguments)
{
	u32 zero = 0, pid = ((struct task_struct *)arguments[2])->pid;
	u64 *since, *at, now;

	if (!is_watched(pid))
		return 0;
	at = bpf_map_lookup_elem(&given, &zero);
	if (at)
		*at = bpf_ktime_get_ns();
	since = bpf_map_lookup_elem(&waiting, &pid);
	if (!since)
		return 0;
	now = bpf_ktime_get_ns();
	if (now > *since && now - *since > late_ns && ((struct task_struct *)arguments[1])->pid)
		put(arguments, BLOCKER, now - *since, 0);
	/* Nothing is left of a thread that ends: it runs first. */
	bpf_map_delete_elem(&waiting, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
