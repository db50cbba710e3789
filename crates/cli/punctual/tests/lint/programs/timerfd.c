// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A timerfd releases the loop, on CLOCK_REALTIME if there is a fault. The loop waits for it with
 * epoll, poll or select.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include "loop.h"

static int timer, set;

static void wait_for_timer(void)
{
#if defined(POLL)
	struct pollfd polled = { timer, POLLIN, 0 };

	poll(&polled, 1, -1);
#elif defined(SELECT)
	fd_set read;

	FD_ZERO(&read);
	FD_SET(timer, &read);
	select(timer + 1, &read, 0, 0, 0);
#else
	struct epoll_event event;

	epoll_wait(set, &event, 1, -1);
#endif
}

int main(int argc, char **argv)
{
	struct itimerspec periodic = { { 0, PERIOD }, { 0, PERIOD } };
	struct epoll_event event = { .events = EPOLLIN };
	uint64_t periods;

	begin(argc, argv);
	timer = timerfd_create(has_fault ? CLOCK_REALTIME : CLOCK_MONOTONIC, 0);
	set = epoll_create1(0);
	if (timer < 0 || set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, timer, &event) ||
	    timerfd_settime(timer, 0, &periodic, 0))
		return 1;
	lock_memory();
	become_real_time(PRIORITY);
	ready();
	for (;;) {
		wait_for_timer();
		if (read(timer, &periods, sizeof(periods)) != sizeof(periods))
			return 1;
	}
}
