// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Sums up in the kernel how long woken threads wait for their CPU.
 *
 * sched_waking (sched_wakeup_new for a new thread) notes when a thread was woken;
 * sched_switch, when the thread gets the CPU, counts the time since. User space reads the sums once a second.
 *
 * This is cheap because a thread's note is in an array, indexed by its pid modulo
 * the array's size, so that finding it is one addition (no hash, no call), and each
 * CPU has separate sums, so that CPUs share only the notes.
 *
 * Kernel: include/trace/events/sched.h.
 */
#include "watch.h"

/* Set by the loader. */
const volatile u32 note_mask = 0;	/* notes - 1, a power of two - 1 */
const volatile u32 by_comm = 0;		/* rows by comm and class, else by class */
const volatile u32 priority_below = 140; /* kernel priorities to look at: 100: real-time only */
const volatile u32 by_group = 0;	/* rows by control group, too */
const volatile u32 only_groups = 0;	/* only threads in groups of `wanted` */
const volatile u32 of_scheduler = 0;	/* groups of the scheduler, else of version 2 */

/*
 * 0 until all programs are attached, because a thread that waits while they are
 * loaded waits for the loader.
 */
u64 counting;

/* Rows of sums: first one for each class, then one for each comm seen. */
enum { CLASS_DEADLINE, CLASS_REAL_TIME, CLASS_FAIR, CLASS_IDLE, CLASSES };
enum { SCHED_IDLE = 5 };

/*
 * Buckets: 1 ns wide below 100 ns, then 90 for each decade (10 % to 1 % of the
 * value), and one for everything beyond 1000 s.
 */
enum { BUCKETS = 100 + 90 * 10 + 1 };

/* A woken thread that does not run yet. */
struct note {
	u64 woken;
	u32 pid;
	u32 waker;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);	/* open waits are read there */
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct note);
} notes SEC(".maps");

/* The counts of one row, per CPU. */
struct row {
	u64 count;
	u64 sum;
	u64 max;
	u64 held;	/* what its threads ran while others waited for their CPU */
	u64 buckets[BUCKETS];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct row);
} rows SEC(".maps");

struct name {
	char comm[16];
	u32 class;
	u32 padding;
	u64 group;
};

/* The row of each comm. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, struct name);
	MAP_TYPE(value, u32);
} names SEC(".maps");

/* Control groups whose threads are counted. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, u32);
} wanted SEC(".maps");

struct who {
	u32 pid;
	int priority;
	u32 policy;
	char comm[16];
};

struct late {
	u64 woken;
	u64 latency;
	u64 culprit_ran;
	u32 waker;
	struct who victim;
	struct who culprit;
};

enum { WORST = 16 };

/* The data of one CPU. */
struct cpu {
	u64 switched_at;	/* when the running thread got the CPU */
	u64 replaced;		/* notes of other threads that a wake-up overwrote */
	u64 unnamed;		/* wake-ups of comms for which no row was left */
	u64 floor;		/* the smallest of the worst */
	u64 writes;		/* odd while `worst` is written */
	u32 running;		/* the thread that has the CPU */
	u32 padding;
	struct late worst[WORST];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

const volatile u32 comm_rows = 0;	/* how many comms can have a row */
u32 next_row = CLASSES;

INLINE u32 class_of(const struct task_struct *task)
{
	int priority = task->prio;

	if (priority >= 100)
		return task->policy == SCHED_IDLE ? CLASS_IDLE : CLASS_FAIR;
	return priority < 0 ? CLASS_DEADLINE : CLASS_REAL_TIME;
}

/* The number of a thread's control group, which is the inode of its folder; 0 for none. */
INLINE u64 group_of(const struct task_struct *task)
{
	if (of_scheduler) {
		if (!HAS(task_struct___group, sched_task_group))
			return 0;
		return ((struct task_struct___group *)task)
			->sched_task_group->css.cgroup->kn->id;
	}
	if (!HAS(task_struct___cgroups, cgroups))
		return 0;
	return ((struct task_struct___cgroups *)task)->cgroups->dfl_cgrp->kn->id;
}

#define DECADE(number, unit)                                                         \
	if (ns < 100ULL * (unit))                                                    \
		return 100 + 90 * (number) + (u32)(ns / (unit)) - 10

INLINE u32 bucket_of(u64 ns)
{
	if (ns < 100)
		return ns;
	DECADE(0, 10ULL);
	DECADE(1, 100ULL);
	DECADE(2, 1000ULL);
	DECADE(3, 10000ULL);
	DECADE(4, 100000ULL);
	DECADE(5, 1000000ULL);
	DECADE(6, 10000000ULL);
	DECADE(7, 100000000ULL);
	DECADE(8, 1000000000ULL);
	DECADE(9, 10000000000ULL);
	return BUCKETS - 1;
}

INLINE void describe(struct who *who, const struct task_struct *task)
{
	who->pid = task->pid;
	who->priority = task->prio;
	who->policy = task->policy;
	bpf_probe_read_kernel(who->comm, sizeof(who->comm), task->comm);
}

/* Rare: about WORST * ln(n) times for n wake-ups. */
static __attribute__((noinline)) int keep(struct cpu *cpu, const struct task_struct *prev,
					  const struct task_struct *next,
					  struct note *note, u64 now)
{
	u64 smallest = ~0ULL;
	u64 second = ~0ULL;
	u32 place = 0;
	struct late *late;

	if (!cpu || !note)
		return 0;
	for (u32 i = 0; i < WORST; i++) {
		u64 latency = cpu->worst[i].latency;

		if (latency < smallest) {
			second = smallest;
			smallest = latency;
			place = i;
		} else if (latency < second) {
			second = latency;
		}
	}
	if (place >= WORST)
		return 0;
	late = &cpu->worst[place];
	cpu->writes++;
	late->woken = note->woken;
	late->latency = now - note->woken;
	late->waker = note->waker;
	/* The part of prev's run after the wake-up. */
	late->culprit_ran = now - (cpu->switched_at > note->woken ? cpu->switched_at : note->woken);
	describe(&late->victim, next);
	describe(&late->culprit, prev);
	cpu->floor = late->latency < second ? late->latency : second;
	cpu->writes++;
	return 0;
}

/* The row of a comm and a group; the row of its class if none is left. */
INLINE u32 row_of(const struct task_struct *task, u32 class, struct cpu *cpu)
{
	struct name name = {};
	u32 *known;
	u32 fresh;

	if (!by_comm && !by_group)
		return class;
	if (by_comm)
		bpf_probe_read_kernel(name.comm, sizeof(name.comm), task->comm);
	if (by_group)
		name.group = group_of(task);
	name.class = class;
	known = bpf_map_lookup_elem(&names, &name);
	if (known)
		return *known;
	if (next_row < CLASSES + comm_rows) {
		fresh = __sync_fetch_and_add(&next_row, 1);
		/* Two CPUs may see a new comm at once; one of the rows then stays empty. */
		if (fresh < CLASSES + comm_rows &&
		    !bpf_map_update_elem(&names, &name, &fresh, BPF_NOEXIST))
			return fresh;
	}
	cpu->unnamed++;
	return class;
}

INLINE void count_replaced(void)
{
	u32 zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);

	if (cpu)
		cpu->replaced++;
}

INLINE void note_woken(const struct task_struct *task)
{
	u32 pid, place;
	struct note *note;

	if (!counting || task->prio >= (int)priority_below)
		return;
	if (only_groups) {
		u64 group = group_of(task);

		if (!bpf_map_lookup_elem(&wanted, &group))
			return;
	}
	pid = task->pid;
	place = pid & note_mask;
	note = bpf_map_lookup_elem(&notes, &place);
	if (!note)
		return;
	if (UNLIKELY(note->woken && note->pid != pid))
		count_replaced();
	note->woken = bpf_ktime_get_ns();
	note->pid = pid;
	note->waker = bpf_get_current_pid_tgid();
}

SEC("tp_btf/sched_waking")
int waking(u64 *arguments)
{
	note_woken((struct task_struct *)arguments[0]);
	return 0;
}

/* A new thread is not woken: it enters the run queue as it is. */
SEC("tp_btf/sched_wakeup_new")
int waking_new(u64 *arguments)
{
	note_woken((struct task_struct *)arguments[0]);
	return 0;
}

SEC("tp_btf/sched_switch")
int switching(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	struct task_struct *next = (struct task_struct *)arguments[2];
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0, place, pid;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct note *note;
	struct row *row;
	u64 latency;

	if (!cpu)
		return 0;
	/*
	 * A thread that was woken while it still ran (it was about to sleep)
	 * did not wait. Its note would count as a wait when it resumes
	 * after a preemption.
	 */
	pid = prev->pid;
	place = pid & note_mask;
	note = bpf_map_lookup_elem(&notes, &place);
	if (note && note->pid == pid)
		note->woken = 0;

	pid = next->pid;
	place = pid & note_mask;
	note = bpf_map_lookup_elem(&notes, &place);
	if (!pid || !note || !note->woken || note->pid != pid)
		goto out;
	latency = now - note->woken;
	if ((long long)latency < 0)	/* the clocks of two CPUs, a few ns apart */
		latency = 0;
	place = row_of(next, class_of(next), cpu);
	row = bpf_map_lookup_elem(&rows, &place);
	if (row) {
		row->count++;
		row->sum += latency;
		if (latency > row->max)
			row->max = latency;
		place = bucket_of(latency);
		/* The compiler knows that it is in range; the kernel must see a check. */
		asm volatile("" : "+r"(place));
		if (place < BUCKETS)
			row->buckets[place]++;
	}
	if (by_group && prev->pid) {
		u64 from = cpu->switched_at > note->woken ? cpu->switched_at : note->woken;

		place = row_of(prev, class_of(prev), cpu);
		row = bpf_map_lookup_elem(&rows, &place);
		if (row && now > from)
			row->held += now - from;
	}
	if (UNLIKELY(latency > cpu->floor))
		keep(cpu, prev, next, note, now);
	note->woken = 0;
out:
	cpu->running = pid;
	cpu->switched_at = now;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
