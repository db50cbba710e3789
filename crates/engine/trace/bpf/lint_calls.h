/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Kernel types that lint.bpf.c needs for system calls, their files and signals. */
#ifndef PUNCTUAL_LINT_CALLS_H
#define PUNCTUAL_LINT_CALLS_H

#include "lint.h"

/* arch/x86/include/asm/ptrace.h */
struct pt_regs___x86_call {
	unsigned long r10;
	unsigned long r8;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
} __attribute__((preserve_access_index));

/* include/linux/sched.h */
struct sched_entity {
	u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct___runtime {
	struct sched_entity se;
} __attribute__((preserve_access_index));

/* include/linux/fs.h */
struct file___data {
	void *private_data;
} __attribute__((preserve_access_index));

/* include/linux/net.h, include/net/sock.h, include/net/af_unix.h: the address of a socket's peer. */
struct sock_common {
	unsigned short skc_family;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));

struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[108];
};

struct unix_address {
	struct sockaddr_un name[0];
} __attribute__((preserve_access_index));

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
} __attribute__((preserve_access_index));

/* include/linux/socket.h; the path follows the family in struct sockaddr_un. */
enum { UNIX_FAMILY = 1, PATH_IN_ADDRESS = 2 };

/* include/uapi/linux/stat.h */
enum { S_IFSOCK = 0140000 };

/* include/linux/signal_types.h */
struct kernel_siginfo {
	int si_code;
} __attribute__((preserve_access_index));

/* include/uapi/asm-generic/siginfo.h, signal.h */
enum { SI_KERNEL = 0x80, SI_TIMER = -2 };
enum { SIGNAL_ALARM = 14, SIGNAL_VIRTUAL_ALARM = 26, SIGNAL_PROFILE = 27 };

/* include/linux/poll.h: struct pollfd begins with the descriptor. */
enum { POLLED_SIZE = 8 };

static long (*const bpf_probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;

#endif
