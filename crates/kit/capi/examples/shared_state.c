// State shared by a control thread and an ordinary one. The lock's holder inherits the priority of
// its waiters, so that no thread of a priority in between can delay the control thread.
#include "common.h"
#include <pthread.h>

static punctual_monitor_t storage;
static punctual_monitor_h monitor;
static double setpoint, measured;
static int done;

static void *control(void *nothing) {
  (void)nothing;
  be_real_time(60);
  punctual_periodic_spec_t spec = {.size = sizeof spec, .period_ns = 1000000};
  punctual_periodic_h periodic;
  must(punctual_periodic_new(NULL, &spec, &periodic), "periodic");
  for (int jobs = 0; jobs < 200;) {
    punctual_job_t job = {.size = sizeof job};
    if (must(punctual_periodic_wait(periodic, &job), "wait") == 0)
      continue;
    must(punctual_monitor_lock(monitor), "lock");
    measured += 0.1 * (setpoint - measured);
    done = ++jobs == 200;
    must(punctual_monitor_notify_all(monitor), "notify");
    must(punctual_monitor_unlock(monitor), "unlock");
  }
  punctual_periodic_drop(periodic);
  return NULL;
}

int main(void) {
  must(punctual_monitor_new(&storage, &monitor), "monitor");
  pthread_t thread;
  if (pthread_create(&thread, NULL, control, NULL) != 0)
    return 1;
  must(punctual_monitor_lock(monitor), "lock");
  setpoint = 1;
  while (!done) {
    // An ordinary thread waits with a time limit.
    int64_t deadline = punctual_now_ns() + 1000000000;
    must(punctual_monitor_wait_until(monitor, deadline), "wait");
  }
  double last = measured;
  must(punctual_monitor_unlock(monitor), "unlock");
  pthread_join(thread, NULL);
  punctual_monitor_drop(monitor);
  printf("measured %.3f of 1\n", last);
  return last > 0.9 ? 0 : 1;
}
