// State that threads of different priority share, in C++: see shared_state.c.
#include "../include/punctual.hpp"

#include <cstdio>
#include <mutex>
#include <sched.h>
#include <thread>

using namespace std::chrono_literals;

int main() {
  punctual::monitor monitor;
  double setpoint = 0, measured = 0;
  bool done = false;
  std::thread control([&] {
    try {
      punctual::set_policy(SCHED_FIFO, 60);
    } catch (const punctual::error &missing) {
      std::printf("%s\n", missing.what());
    }
    punctual::periodic periodic(1ms);
    for (int jobs = 0; jobs < 200;) {
      if (!periodic.wait())
        continue;
      std::lock_guard<punctual::monitor> lock(monitor);
      measured += 0.1 * (setpoint - measured);
      done = ++jobs == 200;
      monitor.notify_all();
    }
  });
  double last = 0;
  {
    std::unique_lock<punctual::monitor> lock(monitor);
    setpoint = 1;
    while (!monitor.wait_until(punctual::now() + 1s, [&] { return done; })) {
    }
    last = measured;
  }
  control.join();
  std::printf("measured %.3f of 1\n", last);
  return last > 0.9 ? 0 : 1;
}
