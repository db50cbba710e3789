// A deadline task, in C++: see deadline_task.c.
#include "../include/punctual.hpp"

#include <cstdio>

using namespace std::chrono_literals;

int main() try {
  punctual::deadline task(2ms, 10ms, 10ms);
  for (int job = 0; job < 20; job++) {
    const auto end = punctual::now() + 1ms;
    while (punctual::now() < end) {
    }
    task.end_job();
  }
  std::printf("20 jobs, %llu overruns\n", (unsigned long long)task.overruns());
  return 0;
} catch (const punctual::error &missing) {
  std::printf("without a deadline: %s\n", missing.what());
  return 0;
}
