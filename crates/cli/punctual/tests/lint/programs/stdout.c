// SPDX-License-Identifier: MIT OR Apache-2.0
/* Prints a line in each period. Standard output is a pipe. The clean program keeps the text. */
#define _GNU_SOURCE
#include "loop.h"

static char text[64];

static void step(void)
{
	static unsigned long count;

	snprintf(text, sizeof(text), "%lu\n", count++);
	if (has_fault) {
		fputs(text, stdout);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	loop(step);
}
