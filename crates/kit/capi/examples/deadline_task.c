// A deadline task: 1 ms of work every 10 ms, and a signal when it exhausts its runtime.
#include "common.h"

int main(void) {
  punctual_deadline_h task;
  if (punctual_deadline_new(NULL, 2000000, 10000000, 10000000, &task) < 0) {
    // Permission or bandwidth is missing; the message says which.
    printf("without a deadline: %s\n", punctual_last_error());
    return 0;
  }
  for (int job = 0; job < 20; job++) {
    int64_t end = punctual_now_ns() + 1000000;
    while (punctual_now_ns() < end) {
    }
    must(punctual_deadline_end_job(task), "end of the job");
  }
  uint64_t overruns;
  must(punctual_deadline_overruns(task, &overruns), "overruns");
  punctual_deadline_drop(task);
  printf("20 jobs, %llu overruns\n", (unsigned long long)overruns);
  return 0;
}
