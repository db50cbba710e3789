// SPDX-License-Identifier: MIT OR Apache-2.0
/* Does not lock its memory. */
#define _GNU_SOURCE
#include "loop.h"

int main(int argc, char **argv)
{
	struct timespec release;

	begin(argc, argv);
	if (!has_fault)
		lock_memory();
	become_real_time(PRIORITY);
	ready();
	release = now();
	for (;;)
		next_period(&release);
}
