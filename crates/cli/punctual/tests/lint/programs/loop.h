// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A real-time loop of 1 ms that violates no rule of lint. Each program adds one fault, unless its
 * first argument is `clean`. The second argument is its CPU.
 */
#ifndef LOOP_H
#define LOOP_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PERIOD 1000000
#define PRIORITY 20
/* The exit status if a privilege is missing. */
#define NO_RIGHT 77

static int has_fault, cpu;
/* The periods begin at this time after full milliseconds, so that threads have known phases. */
static long phase;

static inline void pin(int to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(to, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(1);
}

static inline void become_real_time(int priority)
{
	struct sched_param parameters = {};

	parameters.sched_priority = priority;
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters))
		exit(NO_RIGHT);
}

static inline void lock_memory(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		exit(NO_RIGHT);
}

static __attribute__((noinline)) void touch_stack(void)
{
	char stack[256 << 10];

	memset(stack, 1, sizeof(stack));
	__asm__ volatile("" ::"r"(stack) : "memory");
}

/* Reads the arguments. The program ends with the test, and after a minute at the latest. */
static inline void begin(int argc, char **argv)
{
	struct rlimit limit = { 1000000, 1000000 };

	has_fault = argc > 1 && !strcmp(argv[1], "fault");
	cpu = argc > 2 ? atoi(argv[2]) : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(60);
	if (setrlimit(RLIMIT_RTTIME, &limit))
		exit(1);
	pin(cpu);
	touch_stack();
}

static inline void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static inline struct timespec now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time;
}

static inline void add(struct timespec *time, long ns)
{
	time->tv_nsec += ns;
	if (time->tv_nsec >= 1000000000) {
		time->tv_nsec -= 1000000000;
		time->tv_sec++;
	}
}

static inline struct timespec first_release(long after)
{
	struct timespec time = now();

	time.tv_nsec -= time.tv_nsec % PERIOD;
	add(&time, after);
	return time;
}

static inline void wait_until(struct timespec *release)
{
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, release, 0))
		;
}

static inline void next_period(struct timespec *release)
{
	add(release, PERIOD);
	wait_until(release);
}

/* Prepares everything, and calls `step` in each period. */
static inline void loop(void (*step)(void))
{
	struct timespec release;

	lock_memory();
	become_real_time(PRIORITY);
	ready();
	release = first_release(phase);
	for (;;) {
		next_period(&release);
		step();
	}
}

static inline void start(void *(*function)(void *), void *argument)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 512 << 10);
	if (pthread_create(&thread, &small, function, argument))
		exit(NO_RIGHT);
}

#endif
