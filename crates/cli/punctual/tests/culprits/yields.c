/* A thread of SCHED_DEADLINE that ends each job with sched_yield(2), as the kernel's
 * Documentation/scheduler/sched-deadline.rst recommends. Each tenth job computes for 5 ms, but
 * 2 ms are reserved. Ends with 2 if it may not. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>

struct attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

static int64_t cpu_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void) {
  struct attributes attributes = {
    .size = sizeof attributes,
    .policy = 6, /* SCHED_DEADLINE */
    .runtime = 2000000,
    .deadline = 10000000,
    .period = 10000000,
  };
  if (syscall(SYS_sched_setattr, 0, &attributes, 0)) {
    fprintf(stderr, "sched_setattr: %s (os error %d)\n", strerror(errno), errno);
    return 2;
  }
  puts("runs");
  fflush(stdout);
  for (int job = 0; job < 3000; job++) {
    int64_t end = cpu_time() + (job % 10 == 9 ? 5000000 : 200000);
    while (cpu_time() < end)
      ;
    sched_yield();
  }
  return 0;
}
