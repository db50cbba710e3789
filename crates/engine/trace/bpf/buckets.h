/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The buckets of the histogram of user space (`Histogram` in crates/base/model) below 10 ms: 1 ns wide
 * below 1 us, then 900 for each decade. A test compares the two.
 */
#ifndef PUNCTUAL_BUCKETS_H
#define PUNCTUAL_BUCKETS_H

enum { COUNTED_NS = 10000000, COUNTED_BUCKETS = 1000 + 4 * 900 };

/* The length is below COUNTED_NS. Divisions of 32 bits are faster than those of 64 bits. */
static inline __attribute__((always_inline)) unsigned int bucket_of(unsigned int ns)
{
	if (ns < 1000)
		return ns;
	if (ns < 10000)
		return 900 + ns / 10;
	if (ns < 100000)
		return 1800 + ns / 100;
	if (ns < 1000000)
		return 2700 + ns / 1000;
	return 3600 + ns / 10000;
}

#endif
