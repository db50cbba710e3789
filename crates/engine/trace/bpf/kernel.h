/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Kernel types that the programs need, instead of a vmlinux.h of 150,000 lines.
 * Members are found by name in the BTF of the kernel that loads the program
 * (preserve_access_index), at any offset.
 */
#ifndef PUNCTUAL_KERNEL_H
#define PUNCTUAL_KERNEL_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

/* include/linux/sched.h */
struct task_struct {
	int pid;
	int tgid;
	int prio;
	unsigned int policy;
	char comm[16];
} __attribute__((preserve_access_index));

/* include/uapi/linux/bpf.h: map types and the numbers of the helpers */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { BPF_MAP_TYPE_LRU_HASH = 9 };
enum { BPF_NOEXIST = 1 };
enum { BPF_F_MMAPABLE = 1 << 10 };

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* How a map describes itself to the loader. */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name

#endif
