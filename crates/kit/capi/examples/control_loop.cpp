// A 1 kHz loop with everything right, in C++: see control_loop.c.
#include "../include/punctual.hpp"

#include <cstdio>
#include <cstdlib>
#include <sched.h>

using namespace std::chrono_literals;

int main(int count, char **arguments) try {
  const auto jobs = std::strtoull(count > 1 ? arguments[1] : "1000", nullptr, 10);
  try {
    punctual::lock_memory();
    punctual::prefault_stack(64 << 10);
    punctual::set_policy(SCHED_FIFO, 80);
  } catch (const punctual::error &missing) {
    std::printf("%s\n", missing.what()); // which right, and how to get it
  }
  punctual::figures figures("control-loop-cpp", 1);
  auto channel = figures.channel("control", PUNCTUAL_KIND_LATENCY, 1ms, 100us);
  punctual::periodic periodic(1ms);
  punctual_account_t account{};
  double state = 0;
  while (account.run < jobs) {
    const auto job = periodic.wait();
    if (!job)
      continue; // a signal handler ran
    state = state * 0.99 + 0.01;
    channel.record(job->release_ns, job->start_ns - job->release_ns);
    account = periodic.account();
    channel.account(account);
  }
  std::printf("due %llu, run %llu, missed %llu (%.1f)\n", (unsigned long long)account.due,
              (unsigned long long)account.run, (unsigned long long)account.missed, state);
  return account.due == account.run + account.missed ? 0 : 1;
} catch (const punctual::error &failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
