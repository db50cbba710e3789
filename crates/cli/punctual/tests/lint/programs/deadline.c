// SPDX-License-Identifier: MIT OR Apache-2.0
/* A thread of SCHED_DEADLINE, which cannot be pinned. It sleeps for a duration if there is a fault. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include "loop.h"

/* include/uapi/linux/sched/types.h */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

int main(int argc, char **argv)
{
	struct attributes attributes = {
		.size = sizeof(attributes), .policy = 6,
		.runtime = PERIOD / 10, .deadline = PERIOD, .period = PERIOD,
	};
	struct timespec release, duration = { 0, PERIOD };
	cpu_set_t all;

	begin(argc, argv);
	memset(&all, 255, sizeof(all));
	if (sched_setaffinity(0, sizeof(all), &all))
		return 1;
	lock_memory();
	/* EBUSY: the machine has no bandwidth left for this thread. */
	if (syscall(SYS_sched_setattr, 0, &attributes, 0))
		return errno == EPERM || errno == EBUSY ? NO_RIGHT : 1;
	ready();
	release = now();
	for (;;)
		if (has_fault)
			nanosleep(&duration, 0);
		else
			next_period(&release);
}
