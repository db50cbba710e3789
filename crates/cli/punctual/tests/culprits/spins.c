/*
 * A thread that spins until another thread of its process, which is preempted meanwhile, has
 * finished. All threads have the ordinary policy. Arguments: the CPUs of the spinning thread and
 * of the others.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { HOGS = 3 };

static atomic_int asked;

static void pin(int cpu, const char *name)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	pthread_setname_np(pthread_self(), name);
}

static long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Uses the CPU for this time. */
static void compute(long long ns)
{
	long long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void *mid(void *cpu)
{
	pin((int)(long)cpu, "mid");
	for (;;) {
		if (atomic_load(&asked)) {
			compute(6000000);
			atomic_store(&asked, 0);
		}
		usleep(500);
	}
}

static void *hog(void *cpu)
{
	pin((int)(long)cpu, "hog");
	for (;;) {
		while (atomic_load(&asked))
			;
		usleep(500);
	}
}

int main(int argc, char **argv)
{
	long others = argc > 2 ? atol(argv[2]) : 0;
	pthread_t thread;

	pthread_create(&thread, 0, mid, (void *)others);
	for (int i = 0; i < HOGS; i++)
		pthread_create(&thread, 0, hog, (void *)others);
	pin(argc > 1 ? atoi(argv[1]) : 0, "spinner");
	for (int job = 0;; job++) {
		struct timespec pause = { 0, 5000000 };

		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, 0);
		compute(100000);
		if (job % 20 == 19) {
			atomic_store(&asked, 1);
			while (atomic_load(&asked))
				;
		}
	}
}
