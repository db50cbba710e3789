// SPDX-License-Identifier: MIT OR Apache-2.0
/* Opens, writes and closes a file in each period. */
#define _GNU_SOURCE
#include <fcntl.h>
#include "loop.h"

static void step(void)
{
	int log;

	if (!has_fault)
		return;
	log = open("log", O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (write(log, "x", 1) != 1)
		exit(1);
	close(log);
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	loop(step);
}
