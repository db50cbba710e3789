// SPDX-License-Identifier: MIT OR Apache-2.0
/* Has priority 99. */
#define _GNU_SOURCE
#include "loop.h"

int main(int argc, char **argv)
{
	struct timespec release;

	begin(argc, argv);
	lock_memory();
	become_real_time(has_fault ? 99 : PRIORITY);
	ready();
	release = now();
	for (;;)
		next_period(&release);
}
