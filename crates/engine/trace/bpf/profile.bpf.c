// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Samples where watched threads spend their time: on the CPU at equal intervals of their CPU time,
 * and off the CPU at each longer wait, with the stack of the thread that ends it. Waits for a CPU
 * have no stack.
 *
 * Only threads whose release waits are known are in `threads`. A release wait is not sampled, because
 * it is not a part of a job. User space decides which samples belong to late jobs (src/profile).
 */
#include "jobs.h"

enum { DEPTH = 32, TOP_WORDS = 48, THREADS = 4096 };
/* Shorter waits are not sampled: their sum is small, and a stack takes about 1 us. */
enum { LEAST_WAIT_NS = 20000 };
/* The number of waits that one CPU samples in INTERVAL_NS limits the cost. */
enum { MOST_WAITS = 1000, INTERVAL_NS = 100000000 };
enum { BPF_RB_NO_WAKEUP = 1 };

/* `kind` of a sample; the numbers must match src/profile/layout.rs. */
enum { ON_CPU, WOKEN_BY_THREAD, WOKEN_BY_INTERRUPT, RUNNABLE };

struct releases {
	struct release_waits on;
	u64 runnable_since;	/* 0 while it runs or sleeps */
	u64 lost_at;		/* when its newest sample was lost */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, THREADS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct releases);
} threads SEC(".maps");

/* The numbers are in bytes. */
struct stack {
	u64 kernel_bytes;
	u64 user_bytes;
	u64 word_bytes;
	u64 kernel[DEPTH];
	u64 user[DEPTH];
	u64 words[TOP_WORDS];	/* at the top of the user stack */
};

struct sample {
	u64 from;
	u64 to;
	u32 tid;
	u32 kind;
	u32 waker;
	u32 padding;
	char comm[16];		/* of the waker */
	struct stack of;
	struct stack by;	/* of the waker; missing in samples on the CPU */
};

/* Read once a second. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 16 << 20);
} samples SEC(".maps");

/* The waits in progress. */
struct wait {
	u64 since;
	struct stack stack;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, THREADS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct wait);
} waiting SEC(".maps");

struct cpu {
	u64 since;
	u64 waits;		/* sampled since then */
	u64 here;		/* a place on the current stack */
	struct wait wait;
	struct sample wake;
	struct sample running;	/* apart, because its timer interrupts the other programs */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

INLINE struct cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

INLINE u64 positive(long bytes)
{
	return bytes > 0 ? bytes : 0;
}

INLINE void take_kernel_stack(void *context, struct stack *stack)
{
	stack->kernel_bytes = positive(bpf_get_stack(context, stack->kernel, sizeof(stack->kernel), 0));
}

/* Takes the user stack of the current thread. */
INLINE void take_user_stack(void *context, struct stack *stack)
{
	void *regs = bpf_task_pt_regs(bpf_get_current_task_btf());

	stack->word_bytes = 0;
	stack->user_bytes = positive(
		bpf_get_stack(context, stack->user, sizeof(stack->user), BPF_F_USER_STACK));
	/* Kernel threads have none. */
	if (!stack->user_bytes)
		return;
	if (bpf_probe_read_user(stack->words, sizeof(stack->words), (void *)stack_pointer(regs)))
		return;
	/* The caller of a leaf function on arm64. */
	if (HAS(pt_regs___arm64, regs))
		stack->words[0] = ((struct pt_regs___arm64 *)regs)->regs[30];
	stack->word_bytes = sizeof(stack->words);
}

INLINE void send(struct releases *releases, struct sample *sample, u32 bytes)
{
	if (bpf_ringbuf_output(&samples, sample, bytes, BPF_RB_NO_WAKEUP))
		releases->lost_at = sample->to;
}

/* Runs at equal intervals of the CPU time of a watched thread. */
SEC("perf_event")
int sampling(struct bpf_perf_event_data *context)
{
	struct cpu *cpu = this_cpu();
	u32 pid = bpf_get_current_pid_tgid();
	struct releases *releases = bpf_map_lookup_elem(&threads, &pid);

	if (!cpu || !releases)
		return 0;
	cpu->running.from = cpu->running.to = bpf_ktime_get_ns();
	cpu->running.tid = pid;
	cpu->running.kind = ON_CPU;
	take_kernel_stack(context, &cpu->running.of);
	take_user_stack(context, &cpu->running.of);
	send(releases, &cpu->running, __builtin_offsetof(struct sample, by));
	return 0;
}

INLINE int sleeps(const struct task_struct *task)
{
	if (HAS(task_struct___new, __state))
		return ((struct task_struct___new *)task)->__state & 3;
	return ((struct task_struct___old *)task)->state & 3;
}

/* A watched thread gets a CPU. */
INLINE void come(u32 pid)
{
	struct releases *releases = bpf_map_lookup_elem(&threads, &pid);
	struct cpu *cpu = this_cpu();
	u64 now, since;

	if (!releases || !releases->runnable_since || !cpu)
		return;
	now = bpf_ktime_get_ns();
	since = releases->runnable_since;
	releases->runnable_since = 0;
	if (now - since < LEAST_WAIT_NS)
		return;
	cpu->wake.from = since;
	cpu->wake.to = now;
	cpu->wake.tid = pid;
	cpu->wake.kind = RUNNABLE;
	send(releases, &cpu->wake, __builtin_offsetof(struct sample, of));
}

/* A watched thread loses its CPU. */
static __attribute__((noinline)) int leave(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	u32 pid = prev->pid;
	struct releases *releases = bpf_map_lookup_elem(&threads, &pid);
	struct cpu *cpu;
	u64 now, argument, second;
	void *regs;

	if (!releases)
		return 0;
	if (arguments[0] || !sleeps(prev)) {
		releases->runnable_since = bpf_ktime_get_ns();
		return 0;
	}
	/* If a wake-up raced with the last switch, it did not end that wait. */
	bpf_map_delete_elem(&waiting, &pid);
	cpu = this_cpu();
	regs = (void *)bpf_task_pt_regs(prev);
	read_arguments(regs, &argument, &second);
	if (!cpu || release_number(&releases->on, call_in(regs), argument))
		return 0;
	now = bpf_ktime_get_ns();
	if (now - cpu->since > INTERVAL_NS) {
		cpu->since = now;
		cpu->waits = 0;
	}
	if (cpu->waits++ >= MOST_WAITS) {
		releases->lost_at = now;
		return 0;
	}
	cpu->wait.since = now;
	take_kernel_stack(arguments, &cpu->wait.stack);
	take_user_stack(arguments, &cpu->wait.stack);
	if (bpf_map_update_elem(&waiting, &pid, &cpu->wait, 0))
		releases->lost_at = now;
	return 0;
}

SEC("tp_btf/sched_switch")
int switching(u64 *arguments)
{
	come(((struct task_struct *)arguments[2])->pid);
	leave(arguments);
	return 0;
}

/* A watched thread is woken. */
SEC("tp_btf/sched_waking")
int waking(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u32 pid = task->pid;
	struct releases *releases = bpf_map_lookup_elem(&threads, &pid);
	struct wait *wait;
	struct sample *sample;
	struct cpu *cpu;
	u64 now;

	if (!releases)
		return 0;
	now = releases->runnable_since = bpf_ktime_get_ns();
	wait = bpf_map_lookup_elem(&waiting, &pid);
	cpu = this_cpu();
	if (!wait || !cpu)
		return 0;
	if (now - wait->since < LEAST_WAIT_NS) {
		bpf_map_delete_elem(&waiting, &pid);
		return 0;
	}
	sample = &cpu->wake;
	sample->from = wait->since;
	sample->to = now;
	sample->tid = pid;
	sample->waker = bpf_get_current_pid_tgid();
	sample->kind = is_on_task_stack(arguments, &cpu->here) ? WOKEN_BY_THREAD : WOKEN_BY_INTERRUPT;
	bpf_get_current_comm(sample->comm, sizeof(sample->comm));
	bpf_probe_read_kernel(&sample->of, sizeof(sample->of), &wait->stack);
	bpf_map_delete_elem(&waiting, &pid);
	take_kernel_stack(arguments, &sample->by);
	sample->by.user_bytes = sample->by.word_bytes = 0;
	if (sample->kind == WOKEN_BY_THREAD)
		take_user_stack(arguments, &sample->by);
	send(releases, sample, sizeof(*sample));
	return 0;
}

/* A thread that was killed in its sleep leaves nothing. */
SEC("tp_btf/sched_process_exit")
int exiting(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u32 pid = task->pid;

	if (!bpf_map_lookup_elem(&threads, &pid))
		return 0;
	bpf_map_delete_elem(&waiting, &pid);
	bpf_map_delete_elem(&threads, &pid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
