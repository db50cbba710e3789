// Producer and consumer on CPUs that share a cache, in C++: see cache_pair.c.
#include "../include/punctual.hpp"

#include <cstdio>
#include <mutex>
#include <thread>

int main() {
  constexpr long values = 1000;
  punctual::monitor monitor;
  bool ready = false;
  long value = 0, sum = 0;
  const auto bind = [](std::uint32_t cpu) {
    if (punctual_set_affinity(&cpu, 1) < 0)
      std::printf("not bound: %s\n", punctual_last_error());
  };
  std::thread producer([&] {
    bind(0); // the CPUs: punctual machine place beside --cpu 0
    for (long next = 1; next <= values; next++) {
      std::unique_lock<punctual::monitor> lock(monitor);
      monitor.wait([&] { return !ready; });
      value = next;
      ready = true;
      monitor.notify_one();
    }
  });
  bind(0);
  for (long taken = 0; taken < values; taken++) {
    std::unique_lock<punctual::monitor> lock(monitor);
    monitor.wait([&] { return ready; });
    sum += value;
    ready = false;
    monitor.notify_one();
  }
  producer.join();
  std::printf("%ld values passed\n", values);
  return sum == values * (values + 1) / 2 ? 0 : 1;
}
