// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Takes a lock that a thread of equal priority holds on another CPU. The lock of the clean program has priority
 * inheritance.
 */
#define _GNU_SOURCE
#include "loop.h"

static pthread_mutex_t lock;

static void *holder(void *unused)
{
	struct timespec release, end;

	pin(!cpu);
	become_real_time(PRIORITY);
	touch_stack();
	release = first_release(0);
	for (;;) {
		pthread_mutex_lock(&lock);
		end = release;
		add(&end, PERIOD / 2);
		wait_until(&end);
		pthread_mutex_unlock(&lock);
		next_period(&release);
	}
	return unused;
}

static void step(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t attributes;

	begin(argc, argv);
	pthread_mutexattr_init(&attributes);
	if (!has_fault)
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &attributes);
	lock_memory();
	start(holder, 0);
	phase = PERIOD / 4;
	loop(step);
}
