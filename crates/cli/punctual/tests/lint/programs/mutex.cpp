// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes a std::mutex that a thread of higher priority holds. The clean program reads an atomic.
#include <atomic>
#include <mutex>
#include "loop.h"

static std::mutex lock;
static std::atomic<unsigned long> value;

static void *holder(void *unused)
{
	pin(!cpu);
	become_real_time(PRIORITY + 1);
	touch_stack();
	timespec release = first_release(0);
	for (;;) {
		{
			std::unique_lock<std::mutex> held(lock, std::defer_lock);
			if (has_fault)
				held.lock();
			timespec end = release;
			add(&end, PERIOD / 2);
			wait_until(&end);
			value++;
		}
		next_period(&release);
	}
	return unused;
}

static unsigned long sum;

static void step()
{
	std::unique_lock<std::mutex> held(lock, std::defer_lock);
	if (has_fault)
		held.lock();
	sum += value;
}

int main(int argc, char **argv)
{
	begin(argc, argv);
	lock_memory();
	start(holder, nullptr);
	phase = PERIOD / 4;
	loop(step);
}
