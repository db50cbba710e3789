// SPDX-License-Identifier: MIT OR Apache-2.0
/* A timer sends a signal in each period: a handler gets it, or sigwaitinfo (WAIT). */
#define _GNU_SOURCE
#include "loop.h"

static volatile sig_atomic_t signals;

static void handler(int signal)
{
	signals += signal;
}

static void nothing(void)
{
}

int main(int argc, char **argv)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec periodic = { { 0, PERIOD }, { 0, PERIOD } };
	timer_t timer;
	sigset_t set;

	begin(argc, argv);
	if (!has_fault)
		loop(nothing);
	signal(SIGRTMIN, handler);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
#ifdef WAIT
	sigprocmask(SIG_BLOCK, &set, 0);
#endif
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &periodic, 0))
		return 1;
#ifdef WAIT
	lock_memory();
	become_real_time(PRIORITY);
	ready();
	for (;;)
		sigwaitinfo(&set, 0);
#else
	loop(nothing);
#endif
}
