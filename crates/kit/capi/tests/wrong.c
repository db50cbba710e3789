// Calls with wrong arguments. Compiled as C11 and as C++17.
#include "punctual.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void expect(int result, int number, const char *text, int line) {
  const char *message = punctual_last_error();
  if (result != -number || (text != NULL && strstr(message, text) == NULL)) {
    printf("line %d: %d (%s) in place of %d (%s)\n", line, result, message, -number,
           text != NULL ? text : "");
    failures++;
  }
}
#define EXPECT(call, number, text) expect(call, number, text, __LINE__)

int main(void) {
  if (punctual_abi_version() != PUNCTUAL_ABI_VERSION || strlen(punctual_last_error()) != 0)
    return 2;
  punctual_periodic_spec_t spec;
  memset(&spec, 0, sizeof spec);
  punctual_periodic_h periodic = NULL;
  EXPECT(punctual_periodic_new(NULL, &spec, &periodic), EINVAL, "size of");
  spec.size = sizeof spec;
  EXPECT(punctual_periodic_new(NULL, &spec, &periodic), EINVAL, "at least 1 ns");
  spec.period_ns = -5;
  EXPECT(punctual_periodic_new(NULL, &spec, &periodic), EINVAL, "period_ns is -5");
  spec.period_ns = 1000000;
  EXPECT(punctual_periodic_new(NULL, NULL, &periodic), EINVAL, "is NULL");
  EXPECT(punctual_periodic_new(NULL, &spec, NULL), EINVAL, "handle is NULL");
  spec.overrun = 9;
  EXPECT(punctual_periodic_new(NULL, &spec, &periodic), EINVAL, "overrun is 9");
  spec.overrun = PUNCTUAL_OVERRUN_REPHASE;
  // A program built for a later header: its additional fields must be zero.
  struct {
    punctual_periodic_spec_t known;
    uint64_t later;
  } future;
  future.known = spec;
  future.known.size = sizeof future;
  future.later = 1;
  EXPECT(punctual_periodic_new(NULL, &future.known, &periodic), E2BIG, "does not support");
  future.later = 0;
  EXPECT(punctual_periodic_new(NULL, &future.known, &periodic), 0, NULL);
  punctual_job_t job;
  memset(&job, 0, sizeof job);
  EXPECT(punctual_periodic_wait(periodic, &job), EINVAL, "size of");
  EXPECT(punctual_periodic_wait(NULL, &job), EINVAL, "handle is NULL");
  punctual_periodic_drop(periodic);
  punctual_periodic_drop(NULL);

  unsigned char bytes[sizeof(punctual_periodic_t) + 8];
  EXPECT(punctual_periodic_new((punctual_periodic_t *)(void *)(bytes + 1), &spec, &periodic), EINVAL,
         "aligned");

  punctual_monitor_t storage;
  punctual_monitor_h monitor;
  EXPECT(punctual_monitor_new(&storage, &monitor), 0, NULL);
  EXPECT(punctual_monitor_unlock(monitor), EPERM, "does not hold the lock");
  EXPECT(punctual_monitor_wait(monitor), EPERM, NULL);
  EXPECT(punctual_monitor_notify_one(monitor), EPERM, NULL);
  EXPECT(punctual_monitor_lock(monitor), 0, NULL);
  EXPECT(punctual_monitor_lock(monitor), EDEADLK, NULL);
  EXPECT(punctual_monitor_wait_until(monitor, -1), EINVAL, NULL);
  EXPECT(punctual_monitor_wait_until(monitor, 1), -1, NULL);
  EXPECT(punctual_monitor_unlock(monitor), 0, NULL);
  punctual_monitor_drop(monitor);

  punctual_figures_h figures = NULL;
  EXPECT(punctual_figures_new(NULL, NULL, 1, &figures), EINVAL, "name is NULL");
  EXPECT(punctual_figures_new(NULL, "\xff", 1, &figures), EINVAL, "UTF-8");
  EXPECT(punctual_figures_new(NULL, "x", 0, &figures), EINVAL, "1 to 64 channels");
  EXPECT(punctual_figures_new(NULL, "x", 1, &figures), 0, NULL);
  punctual_channel_spec_t channel_spec;
  memset(&channel_spec, 0, sizeof channel_spec);
  channel_spec.size = sizeof channel_spec;
  punctual_channel_h channel = NULL, another = NULL;
  EXPECT(punctual_channel_new(NULL, figures, &channel_spec, &channel), EINVAL, "name is NULL");
  channel_spec.name = "x";
  channel_spec.kind = 77;
  EXPECT(punctual_channel_new(NULL, figures, &channel_spec, &channel), EINVAL, "kind is 77");
  channel_spec.kind = PUNCTUAL_KIND_OTHER;
  EXPECT(punctual_channel_new(NULL, figures, &channel_spec, &channel), 0, NULL);
  EXPECT(punctual_channel_new(NULL, figures, &channel_spec, &another), ENOSPC, "in use");
  // A channel outlives the handle of its figures.
  punctual_figures_drop(figures);
  EXPECT(punctual_channel_record(channel, -1, -1), 0, NULL);
  punctual_channel_drop(channel);

  punctual_policy_t policy;
  memset(&policy, 0, sizeof policy);
  policy.size = sizeof policy;
  policy.policy = 77;
  EXPECT(punctual_set_policy(&policy), EINVAL, "policy number 77");
  policy.policy = 1;
  policy.priority = 1000;
  EXPECT(punctual_set_policy(&policy), EINVAL, "are 1 to 99");
  uint32_t cpu = 100000;
  EXPECT(punctual_set_affinity(&cpu, 1), EINVAL, NULL);
  EXPECT(punctual_set_affinity(NULL, 1), EINVAL, NULL);
  EXPECT(punctual_tcp_send_at_once(-1), EBADF, "-1");
  EXPECT(punctual_tcp_cork(0), ENOTSOCK, NULL);
  EXPECT(punctual_deadline_overruns(NULL, NULL), EINVAL, NULL);
  return failures == 0 ? 0 : 1;
}
