/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Kernel types that jobs.bpf.c needs in addition to kernel.h and lint.h. */
#ifndef PUNCTUAL_JOBS_H
#define PUNCTUAL_JOBS_H

#include "lint.h"

/* include/linux/sched.h: since Linux 5.16 on all architectures. */
struct thread_info___cpu {
	u32 cpu;
} __attribute__((preserve_access_index));

struct task_struct___info {
	struct thread_info___cpu thread_info;
} __attribute__((preserve_access_index));

struct task_struct___cpu {
	u32 cpu;
} __attribute__((preserve_access_index));

struct task_struct___exit {
	int exit_state;
	int normal_prio;
	unsigned int flags;
} __attribute__((preserve_access_index));

enum { PF_EXITING = 4 };

/* include/linux/pid.h */
struct pid {
	unsigned int level;
} __attribute__((preserve_access_index));

struct task_struct___pid {
	struct pid *thread_pid;
} __attribute__((preserve_access_index));

/* arch/x86/include/asm/ptrace.h */
struct pt_regs___third {
	unsigned long dx;
} __attribute__((preserve_access_index));

/* include/uapi/linux/bpf_perf_event.h */
struct bpf_perf_event_data {
	u64 addr;
} __attribute__((preserve_access_index));

/* include/uapi/linux/time.h, futex.h */
enum { CLOCK_MONOTONIC = 1, TIMER_ABSTIME = 1 };
enum { FUTEX_LOCK_PI = 6, FUTEX_LOCK_PI2 = 13, FUTEX_OPERATION = 0x7f };
enum { FUTEX_TID_MASK = 0x3fffffff };

struct task_struct___stack {
	void *stack;
} __attribute__((preserve_access_index));

/* include/linux/sched.h: how long a timer of the thread may be late. */
struct task_struct___slack {
	u64 timer_slack_ns;
} __attribute__((preserve_access_index));

/* include/linux/hrtimer_types.h, timerqueue_types.h */
struct timerqueue_node {
	long long expires;
} __attribute__((preserve_access_index));

/* include/linux/hrtimer_defs.h */
struct hrtimer_clock_base {
	long long offset;	/* of its clock to CLOCK_MONOTONIC */
} __attribute__((preserve_access_index));

struct hrtimer___due {
	struct timerqueue_node node;	/* the latest time */
	long long _softexpires;		/* the time that was asked for */
	void *function;
	struct hrtimer_clock_base *base;
	u8 is_soft;
} __attribute__((preserve_access_index));

/* include/linux/interrupt.h */
struct irqaction {
	const char *name;
} __attribute__((preserve_access_index));

/* include/linux/blk-mq.h, blkdev.h */
struct gendisk {
	int major;
	int first_minor;
} __attribute__((preserve_access_index));

struct request_queue {
	struct gendisk *disk;
} __attribute__((preserve_access_index));

struct request {
	struct request_queue *q;
	u64 __sector;
} __attribute__((preserve_access_index));

/* include/uapi/linux/bpf.h */
struct bpf_perf_event_value {
	u64 counter;
	u64 enabled;
	u64 running;
};

enum { BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4, BPF_MAP_TYPE_RINGBUF = 27 };
#define BPF_F_CURRENT_CPU 0xffffffffULL

static long (*const bpf_perf_event_read_value)(void *map, u64 flags,
					       struct bpf_perf_event_value *value,
					       u32 size) = (void *)55;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_get_current_comm)(void *to, u32 size) = (void *)16;
static long (*const bpf_ringbuf_output)(void *map, void *data, u64 size, u64 flags) = (void *)130;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;

/* Set by the loader: the smallest size of a kernel stack. */
const volatile u64 stack_bytes = 16 << 10;

/* The release waits of a watched thread. */
enum { WAITS = 4 };
struct release_waits {
	u64 arguments[WAITS];
	u64 ignored[WAITS];	/* bits of the argument */
	u32 calls[WAITS];	/* ~0 for none */
};

/* Returns the number of the release wait that this is, + 1; 0 if it is none. */
INLINE u32 release_number(const struct release_waits *waits, u32 call, u64 argument)
{
	/* A page fault, and a place without a release wait, have no call. */
	for (u32 i = 0; i < WAITS && call != ~0U; i++)
		if (waits->calls[i] == call &&
		    !((waits->arguments[i] ^ argument) & ~waits->ignored[i]))
			return i + 1;
	return 0;
}

/* The system call of these registers; ~0 if unknown. */
INLINE u32 call_in(void *regs)
{
	if (HAS(pt_regs___x86, orig_ax))
		return ((struct pt_regs___x86 *)regs)->orig_ax;
	if (HAS(pt_regs___arm64, syscallno))
		return ((struct pt_regs___arm64 *)regs)->syscallno;
	return ~0;
}

/* The system call that a thread is in; ~0 if unknown. */
INLINE u32 call_of(struct task_struct *task)
{
	return call_in((void *)bpf_task_pt_regs(task));
}

/* Reads the first two arguments of a system call. */
INLINE void read_arguments(void *regs, u64 *one, u64 *two)
{
	*one = *two = 0;
	if (HAS(pt_regs___x86, orig_ax)) {
		*one = ((struct pt_regs___x86 *)regs)->di;
		*two = ((struct pt_regs___x86 *)regs)->si;
	} else if (HAS(pt_regs___arm64, syscallno)) {
		*one = ((struct pt_regs___arm64 *)regs)->orig_x0;
		*two = ((struct pt_regs___arm64 *)regs)->regs[1];
	}
}

/* Returns the user stack pointer of these registers; 0 if unknown. */
INLINE u64 stack_pointer(void *regs)
{
	if (HAS(pt_regs___x86, sp))
		return ((struct pt_regs___x86 *)regs)->sp;
	if (HAS(pt_regs___arm64, sp))
		return ((struct pt_regs___arm64 *)regs)->sp;
	return 0;
}

/* Returns whether the current thread itself runs this program, and not an interrupt or softirq that
 * interrupted it. Interrupts and softirqs of kernel code use separate stacks. On x86, an interrupt
 * of user space uses the stack of the thread, and the saved registers show no system call.
 * `context` is on the current stack; `here` is memory of this CPU. */
INLINE int is_on_task_stack(u64 *context, u64 *here)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!here || (HAS(pt_regs___x86, orig_ax) && call_of(task) == ~0U))
		return 0;
	/* The verifier allows arithmetic only with a copy. An interrupt in between makes the result
	 * false, which claims nothing. */
	*(volatile u64 *)here = (u64)context;
	return *(volatile u64 *)here - (u64)((struct task_struct___stack *)task)->stack <
	       stack_bytes;
}

#endif
