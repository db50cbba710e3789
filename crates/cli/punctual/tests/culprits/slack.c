/* A loop of an ordinary thread whose timers the kernel may delay by 5 ms. It runs for the given number
 * of seconds, and prints the shortest time from the due time of a timer to the end of its job, in ns.
 *
 * slack SECONDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define MS 1000000LL

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 * MS + t.tv_nsec;
}

int main(int count, char **words) {
  int64_t end = now() + (count > 1 ? atoi(words[1]) : 1) * 1000 * MS, shortest = INT64_MAX;
  if (prctl(PR_SET_TIMERSLACK, 5 * MS)) return 2;
  while (now() < end) {
    int64_t due = now() + 10 * MS, length;
    struct timespec t = { due / (1000 * MS), due % (1000 * MS) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
    length = now() - due;
    if (length < shortest) shortest = length;
  }
  printf("%lld\n", (long long)shortest);
  return 0;
}
