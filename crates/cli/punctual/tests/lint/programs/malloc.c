// SPDX-License-Identifier: MIT OR Apache-2.0
/* Allocates and frees memory in each period. The clean program keeps the memory in the process. */
#define _GNU_SOURCE
#include <malloc.h>
#include "loop.h"

static void step(void)
{
	void *memory = malloc(256 << 10);

	__asm__ volatile("" ::"r"(memory) : "memory");
	free(memory);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	if (has_fault) {
		mallopt(M_MMAP_THRESHOLD, 128 << 10);
	} else {
		mallopt(M_TRIM_THRESHOLD, -1);
		mallopt(M_MMAP_MAX, 0);
	}
	loop(step);
}
