// A complete 1 kHz loop: locked memory, a prefaulted stack, SCHED_FIFO, absolute release
// times, balanced accounting of periods, a guard that detects system calls, and figures for
// `punctual app record control-loop-c`. control_loop [JOBS]
#include "common.h"

int main(int count, char **arguments) {
  long jobs = count > 1 ? atol(arguments[1]) : 1000;
  if (punctual_abi_version() != PUNCTUAL_ABI_VERSION) {
    fprintf(stderr, "the library is of another version than the header\n");
    return 1;
  }
  if (punctual_lock_memory() < 0)
    printf("%s\n", punctual_last_error());
  must(punctual_prefault_stack(64 << 10), "prefault");
  be_real_time(80);

  punctual_figures_t figures_storage;
  punctual_figures_h figures;
  must(punctual_figures_new(&figures_storage, "control-loop-c", 1, &figures), "figures");
  punctual_channel_spec_t channel_spec = {.size = sizeof channel_spec,
                                    .name = "control",
                                    .kind = PUNCTUAL_KIND_LATENCY,
                                    .period_ns = 1000000,
                                    .budget_ns = 100000};
  punctual_channel_t channel_storage;
  punctual_channel_h channel;
  must(punctual_channel_new(&channel_storage, figures, &channel_spec, &channel), "channel");
  // Other architectures have no guard for system calls, so the loop runs without one.
  punctual_system_call_guard_h guard = NULL;
  if (punctual_system_call_guard_new(NULL, &guard) < 0)
    printf("%s\n", punctual_last_error());

  punctual_periodic_spec_t spec = {.size = sizeof spec, .period_ns = 1000000};
  punctual_periodic_t periodic_storage;
  punctual_periodic_h periodic;
  must(punctual_periodic_new(&periodic_storage, &spec, &periodic), "periodic");
  punctual_account_t account = {.size = sizeof account};
  volatile double state = 0;
  while (account.run < (uint64_t)jobs) {
    punctual_job_t job = {.size = sizeof job};
    if (must(punctual_periodic_wait(periodic, &job), "wait") == 0)
      continue; // a signal handler ran: check a stop flag here
    if (guard != NULL)
      punctual_system_call_guard_enter(guard);
    state = state * 0.99 + 0.01; // the work
    punctual_channel_record(channel, job.release_ns, job.start_ns - job.release_ns);
    punctual_periodic_account(periodic, &account);
    punctual_channel_account(channel, &account);
    if (guard != NULL)
      punctual_system_call_guard_leave(guard);
  }
  punctual_violations_t seen = {.size = sizeof seen};
  if (guard != NULL)
    must(punctual_system_call_guard_violations(guard, &seen), "violations");
  printf("due %llu, run %llu, missed %llu, system calls in jobs %llu\n",
         (unsigned long long)account.due, (unsigned long long)account.run,
         (unsigned long long)account.missed, (unsigned long long)seen.count);
  punctual_system_call_guard_drop(guard);
  punctual_periodic_drop(periodic);
  punctual_channel_drop(channel);
  punctual_figures_drop(figures);
  return account.due == account.run + account.missed && seen.count == 0 ? 0 : 1;
}
