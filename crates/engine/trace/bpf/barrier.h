/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The order of accesses to memory that another CPU reads, or a program that has mapped it. */
#ifndef PUNCTUAL_BARRIER_H
#define PUNCTUAL_BARRIER_H

#include "kernel.h"

/*
 * Not 0 if the processor reorders stores as other CPUs see them, or loads. The loader sets it. If it
 * is 0, the kernel removes the branch below.
 */
const volatile u32 reorders = 0;

/* Keeps the accesses before it before those after it, also as other CPUs see them. */
INLINE void barrier(void)
{
	if (reorders) {
		u64 place = 0;

		/* An atomic exchange, which BPF guarantees to be a full barrier. */
		__sync_lock_test_and_set((volatile u64 *)&place, 1);
	}
	asm volatile("" ::: "memory");
}

#endif
