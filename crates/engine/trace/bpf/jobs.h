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
} __attribute__((preserve_access_index));

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

#endif
