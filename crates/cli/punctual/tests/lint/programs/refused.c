// SPDX-License-Identifier: MIT OR Apache-2.0
/* Asks for a priority that does not exist in each period. */
#define _GNU_SOURCE
#include "loop.h"

int main(int argc, char **argv)
{
	struct sched_param too_high = { .sched_priority = 200 };
	struct timespec release;

	begin(argc, argv);
	lock_memory();
	become_real_time(PRIORITY);
	ready();
	release = now();
	for (;;) {
		if (has_fault && !sched_setscheduler(0, SCHED_FIFO, &too_high))
			exit(1);
		next_period(&release);
	}
}
