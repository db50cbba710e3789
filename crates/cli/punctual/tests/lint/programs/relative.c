// SPDX-License-Identifier: MIT OR Apache-2.0
/* Sleeps for a duration instead of until a time. */
#define _GNU_SOURCE
#include <sys/select.h>
#include "loop.h"

static void step(void)
{
	struct timeval duration = { 0, 1000 };

	if (!has_fault)
		return;
#ifdef SELECT
	select(0, 0, 0, 0, &duration);
#else
	usleep(duration.tv_usec);
#endif
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	loop(step);
}
