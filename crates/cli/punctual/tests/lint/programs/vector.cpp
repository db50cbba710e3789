// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes a vector of 1 MB in each period. The clean program makes it once.
#include <vector>
#include "loop.h"

static std::vector<char> once(1000000);

static void step()
{
	if (has_fault) {
		std::vector<char> fresh;
		fresh.reserve(1000000);
		fresh.push_back(1);
		__asm__ volatile("" ::"r"(fresh.data()) : "memory");
	} else {
		once[0]++;
	}
}

#include <malloc.h>

int main(int argc, char **argv)
{
	begin(argc, argv);
	// glibc raises this threshold when memory is freed, unless it is set.
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	loop(step);
}
