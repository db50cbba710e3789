// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Waits on a condition variable, which a thread of higher priority signals in each period. The clean
 * program waits for the timer itself. Only the waiting thread takes the mutex: if both took it, a late
 * thread would sometimes make the other wait for the mutex, which would be a second fault. A signal
 * that arrives just before the wait is lost, but the next one arrives a period later.
 */
#define _GNU_SOURCE
#include "loop.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned long data;

static void *producer(void *unused)
{
	struct timespec release;

	pin(!cpu);
	become_real_time(PRIORITY + 1);
	touch_stack();
	release = first_release(0);
	for (;;) {
		next_period(&release);
		data++;
		pthread_cond_signal(&condition);
	}
	return unused;
}

static void step(void)
{
	unsigned long seen = data;

	pthread_mutex_lock(&lock);
	while (data == seen)
		pthread_cond_wait(&condition, &lock);
	pthread_mutex_unlock(&lock);
}

static void nothing(void)
{
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	if (!has_fault)
		loop(nothing);
	lock_memory();
	start(producer, 0);
	become_real_time(PRIORITY);
	ready();
	for (;;)
		step();
}
