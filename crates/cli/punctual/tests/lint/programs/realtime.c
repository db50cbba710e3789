// SPDX-License-Identifier: MIT OR Apache-2.0
/* Sleeps until a time of CLOCK_REALTIME. The clean program uses CLOCK_MONOTONIC. */
#define _GNU_SOURCE
#include "loop.h"

int main(int argc, char **argv)
{
	struct timespec release;
	clockid_t clock;

	begin(argc, argv);
	clock = has_fault ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	lock_memory();
	become_real_time(PRIORITY);
	ready();
	clock_gettime(clock, &release);
	for (;;) {
		add(&release, PERIOD);
		clock_nanosleep(clock, TIMER_ABSTIME, &release, 0);
	}
}
