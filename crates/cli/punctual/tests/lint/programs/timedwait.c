// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Waits on a semaphore with a timeout, which is on CLOCK_REALTIME. The clean program sleeps until an
 * absolute time of CLOCK_MONOTONIC.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include "loop.h"

static sem_t never;

static void step(void)
{
	struct timespec until;

	if (!has_fault)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	add(&until, PERIOD / 2);
	sem_timedwait(&never, &until);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	sem_init(&never, 0, 0);
	loop(step);
}
