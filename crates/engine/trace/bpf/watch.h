/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Kernel types that watch.bpf.c needs in addition to kernel.h. */
#ifndef PUNCTUAL_WATCH_H
#define PUNCTUAL_WATCH_H

#include "kernel.h"

/* include/linux/kernfs.h, cgroup-defs.h; kernel/sched/sched.h */
struct kernfs_node {
	u64 id;
} __attribute__((preserve_access_index));

struct cgroup {
	struct kernfs_node *kn;
} __attribute__((preserve_access_index));

struct css_set {
	struct cgroup *dfl_cgrp;
} __attribute__((preserve_access_index));

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} __attribute__((preserve_access_index));

struct task_group {
	struct cgroup_subsys_state css;
} __attribute__((preserve_access_index));

struct task_struct___cgroups {
	struct css_set *cgroups;
} __attribute__((preserve_access_index));

struct task_struct___group {
	struct task_group *sched_task_group;
} __attribute__((preserve_access_index));

/* BPF_FIELD_EXISTS of enum bpf_field_info_kind (LLVM) */
#define HAS(type, field) __builtin_preserve_field_info(((struct type *)0)->field, 2)

#endif
