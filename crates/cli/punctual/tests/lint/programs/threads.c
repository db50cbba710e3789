// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two threads run at the same time: on one CPU if there is a fault, or on a CPU each.
 */
#define _GNU_SOURCE
#include "loop.h"

static struct timespec together;

static void run(int priority)
{
	struct timespec release = together, end;

	become_real_time(priority);
	touch_stack();
	for (;;) {
		add(&release, 5 * PERIOD);
		wait_until(&release);
		end = release;
		add(&end, PERIOD);
		for (;;) {
			struct timespec time = now();

			if (time.tv_sec > end.tv_sec ||
			    (time.tv_sec == end.tv_sec && time.tv_nsec >= end.tv_nsec))
				break;
		}
	}
}

static void *other(void *unused)
{
	pin(has_fault ? cpu : !cpu);
	run(PRIORITY + 1);
	return unused;
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	lock_memory();
	together = now();
	start(other, 0);
	become_real_time(PRIORITY);
	ready();
	run(PRIORITY);
}
