/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Kernel types that lint.bpf.c needs in addition to kernel.h. */
#ifndef PUNCTUAL_LINT_H
#define PUNCTUAL_LINT_H

#include "kernel.h"

/* include/linux/sched.h: the state was renamed in Linux 5.14. */
struct task_struct___new {
	unsigned int __state;
} __attribute__((preserve_access_index));

struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

/* include/linux/sched/signal.h */
struct signal_struct {
	unsigned int flags;
} __attribute__((preserve_access_index));

enum { SIGNAL_GROUP_EXIT = 4 };

struct task_struct___signal {
	struct signal_struct *signal;
} __attribute__((preserve_access_index));

struct task_struct___blocked {
	void *pi_blocked_on;
} __attribute__((preserve_access_index));

/* include/linux/fdtable.h, include/linux/fs.h: the open files of a process. */
struct super_block {
	unsigned long s_magic;
} __attribute__((preserve_access_index));

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
} __attribute__((preserve_access_index));

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

struct task_struct___files {
	struct files_struct *files;
} __attribute__((preserve_access_index));

/* include/uapi/linux/stat.h, magic.h; the last is not a kernel type. */
enum { S_IFMT = 0170000, ANON_INODE_FS_MAGIC = 0x09041934, ANONYMOUS = 1 };

/* include/linux/hrtimer_types.h */
struct hrtimer {
	u8 is_soft;
} __attribute__((preserve_access_index));

/* arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h */
struct pt_regs___x86 {
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long sp;
} __attribute__((preserve_access_index));

struct pt_regs___arm64 {
	u64 regs[31];
	u64 sp;
	u64 orig_x0;
	int syscallno;
} __attribute__((preserve_access_index));

/* BPF_FIELD_EXISTS of enum bpf_field_info_kind (LLVM) */
#define HAS(type, field) __builtin_preserve_field_info(((struct type *)0)->field, 2)

enum { BPF_F_USER_STACK = 1 << 8 };

static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*const bpf_get_stack)(void *context, void *to, u32 size, u64 flags) = (void *)67;
static long (*const bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static void *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

/* include/linux/sched.h */
struct task_struct___faults {
	int pagefault_disabled;
} __attribute__((preserve_access_index));

/* Returns whether the kernel tries to read user memory without a page fault now. Tracers, such as
 * these programs, read stacks in this way. The address can be anything, and a failed attempt is not
 * a fault of the thread. */
INLINE int page_faults_are_disabled(void)
{
	return ((struct task_struct___faults *)bpf_get_current_task_btf())->pagefault_disabled;
}

#endif
