/* A loop of an ordinary thread whose timers the kernel may delay by 5 ms. It runs for the given number
 * of seconds, and prints the median time from the due time of a timer to the end of its job, in ns.
 *
 * slack SECONDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define MS 1000000LL
#define MOST 100000

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static int order(const void *one, const void *other) {
  int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
  return (a > b) - (a < b);
}

int main(int count, char **words) {
  int64_t end = now() + (count > 1 ? atoi(words[1]) : 1) * 1000 * MS;
  static int64_t lengths[MOST];
  size_t jobs = 0;
  if (prctl(PR_SET_TIMERSLACK, 5 * MS)) return 2;
  while (now() < end && jobs < MOST) {
    int64_t due = now() + 10 * MS;
    struct timespec t = { due / (1000 * MS), due % (1000 * MS) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
    lengths[jobs++] = now() - due;
  }
  qsort(lengths, jobs, sizeof *lengths, order);
  printf("%lld\n", (long long)lengths[jobs / 2]);
  return 0;
}
