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

enum { DEPTH = 32, WAKER_WORDS = 128, THREADS = 512 };
/* A stack is copied up to the end of the page that the stack pointer is in, and then by whole pages.
 * The end of a stack is the end of a page. */
enum { PAGE_BYTES = 4096, PAGES = 3 };
/* Shorter waits are not sampled: their sum is small, and a stack takes about 4 us. */
enum { LEAST_WAIT_NS = 20000 };
/* The number of waits that one CPU samples in INTERVAL_NS limits the cost. */
enum { MOST_WAITS = 1000, INTERVAL_NS = 100000000 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_AVAIL_DATA = 0 };

static u64 (*const bpf_ringbuf_query)(void *map, u64 flags) = (void *)134;

/* arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h */
struct pt_regs___x86_place {
	unsigned long ip;
	unsigned long bp;
} __attribute__((preserve_access_index));

struct pt_regs___arm64_place {
	u64 regs[31];
	u64 pc;
} __attribute__((preserve_access_index));

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
	u64 ip;
	u64 sp;
	u64 fp;
	u64 lr;	/* 0 on x86 */
	u64 kernel[DEPTH];
	u64 user[DEPTH];
};

struct head {
	u64 from;
	u64 to;
	u32 tid;
	u32 kind;
	u32 waker;
	u32 padding;
	char comm[16];		/* of the waker */
};

/* The words at the top of a user stack are at the end, so that only those that were read are sent. */
struct on_cpu {
	struct head head;
	struct stack of;
	u64 words[PAGES * PAGE_BYTES / 8];
};

struct wait {
	struct head head;
	struct stack of;
	struct stack by;	/* of the waker */
	u64 waker_words[WAKER_WORDS];
	u64 words[PAGES * PAGE_BYTES / 8];
};

/* Read once a second, and earlier if a quarter is full. */
enum { SAMPLE_BYTES = 32 << 20 };
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, SAMPLE_BYTES);
} samples SEC(".maps");

/* Wakes the reader. The entries have no content. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 65536);
} news SEC(".maps");

/* The waits in progress: `from` is 0 while a thread does not wait. User space adds the sampled
 * threads, so that a stack is copied once. */
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
	struct head runnable;
	struct on_cpu running;	/* its timer interrupts the other programs */
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

INLINE void take_registers(void *regs, struct stack *stack)
{
	stack->sp = stack_pointer(regs);
	if (HAS(pt_regs___x86_place, ip)) {
		stack->ip = ((struct pt_regs___x86_place *)regs)->ip;
		stack->fp = ((struct pt_regs___x86_place *)regs)->bp;
		stack->lr = 0;
	} else if (HAS(pt_regs___arm64_place, pc)) {
		stack->ip = ((struct pt_regs___arm64_place *)regs)->pc;
		stack->fp = ((struct pt_regs___arm64_place *)regs)->regs[29];
		stack->lr = ((struct pt_regs___arm64_place *)regs)->regs[30];
	}
}

/* Takes the registers and the chain of frame pointers of the current thread. Returns 0 if it has no
 * user stack. */
INLINE u64 take_user_stack(void *context, struct stack *stack)
{
	stack->word_bytes = 0;
	stack->user_bytes = positive(
		bpf_get_stack(context, stack->user, sizeof(stack->user), BPF_F_USER_STACK));
	/* Kernel threads have none. */
	if (!stack->user_bytes)
		return 0;
	take_registers((void *)bpf_task_pt_regs(bpf_get_current_task_btf()), stack);
	return stack->sp;
}

/* Copies the words of a stack from `sp`. Returns the number of bytes. */
INLINE u64 take_words(char *words, u64 sp)
{
	u64 first = PAGE_BYTES - (sp & (PAGE_BYTES - 1));

	if (!sp || bpf_probe_read_user(words, first, (void *)sp))
		return 0;
	if (bpf_probe_read_user(words + first, PAGE_BYTES, (void *)sp + first))
		return first;
	if (bpf_probe_read_user(words + first + PAGE_BYTES, PAGE_BYTES,
				(void *)sp + first + PAGE_BYTES))
		return first + PAGE_BYTES;
	return first + 2 * PAGE_BYTES;
}

/* Sends a sample with `bytes` before its words. Returns 0 if it was sent. */
INLINE long send(void *sample, u64 bytes, u64 word_bytes)
{
	u64 nothing = 0;

	if (bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA) > SAMPLE_BYTES / 4)
		bpf_ringbuf_output(&news, &nothing, sizeof(nothing), 0);
	/* The verifier needs the limit. */
	if (word_bytes > PAGES * PAGE_BYTES)
		word_bytes = PAGES * PAGE_BYTES;
	return bpf_ringbuf_output(&samples, sample, bytes + word_bytes, BPF_RB_NO_WAKEUP);
}

/* Runs at equal intervals of the CPU time of a watched thread. */
SEC("perf_event")
int sampling(struct bpf_perf_event_data *context)
{
	struct cpu *cpu = this_cpu();
	u32 pid = bpf_get_current_pid_tgid();
	struct releases *releases = bpf_map_lookup_elem(&threads, &pid);
	struct on_cpu *sample;
	u64 sp, bytes;

	if (!cpu || !releases)
		return 0;
	sample = &cpu->running;
	sample->head.from = sample->head.to = bpf_ktime_get_ns();
	sample->head.tid = pid;
	sample->head.kind = ON_CPU;
	take_kernel_stack(context, &sample->of);
	sp = take_user_stack(context, &sample->of);
	bytes = sample->of.word_bytes = take_words((char *)sample->words, sp);
	if (send(sample, __builtin_offsetof(struct on_cpu, words), bytes))
		releases->lost_at = sample->head.to;
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
	cpu->runnable.from = since;
	cpu->runnable.to = now;
	cpu->runnable.tid = pid;
	cpu->runnable.kind = RUNNABLE;
	if (send(&cpu->runnable, sizeof(cpu->runnable), 0))
		releases->lost_at = now;
}

/* A watched thread loses its CPU. */
static __attribute__((noinline)) int leave(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	u32 pid = prev->pid;
	struct releases *releases = bpf_map_lookup_elem(&threads, &pid);
	struct wait *wait;
	struct cpu *cpu;
	u64 now, argument, second;
	void *regs;

	if (!releases)
		return 0;
	if (arguments[0] || !sleeps(prev)) {
		releases->runnable_since = bpf_ktime_get_ns();
		return 0;
	}
	wait = bpf_map_lookup_elem(&waiting, &pid);
	cpu = this_cpu();
	if (!wait || !cpu)
		return 0;
	/* If a wake-up raced with the last switch, it did not end that wait. */
	wait->head.from = 0;
	regs = (void *)bpf_task_pt_regs(prev);
	read_arguments(regs, &argument, &second);
	if (release_number(&releases->on, call_in(regs), argument))
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
	take_kernel_stack(arguments, &wait->of);
	second = take_user_stack(arguments, &wait->of);
	wait->of.word_bytes = take_words((char *)wait->words, second);
	wait->head.from = now;
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
	struct cpu *cpu;
	u64 now, since, sp;

	if (!releases)
		return 0;
	now = releases->runnable_since = bpf_ktime_get_ns();
	wait = bpf_map_lookup_elem(&waiting, &pid);
	cpu = this_cpu();
	if (!wait || !cpu)
		return 0;
	since = wait->head.from;
	wait->head.from = 0;
	if (!since || now - since < LEAST_WAIT_NS)
		return 0;
	wait->head.from = since;
	wait->head.to = now;
	wait->head.tid = pid;
	wait->head.waker = bpf_get_current_pid_tgid();
	wait->head.kind = is_on_task_stack(arguments, &cpu->here) ? WOKEN_BY_THREAD : WOKEN_BY_INTERRUPT;
	bpf_get_current_comm(wait->head.comm, sizeof(wait->head.comm));
	take_kernel_stack(arguments, &wait->by);
	wait->by.user_bytes = wait->by.word_bytes = 0;
	if (wait->head.kind == WOKEN_BY_THREAD) {
		sp = take_user_stack(arguments, &wait->by);
		if (sp && !bpf_probe_read_user(wait->waker_words, sizeof(wait->waker_words), (void *)sp))
			wait->by.word_bytes = sizeof(wait->waker_words);
	}
	if (send(wait, __builtin_offsetof(struct wait, words), wait->of.word_bytes))
		releases->lost_at = now;
	wait->head.from = 0;
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
