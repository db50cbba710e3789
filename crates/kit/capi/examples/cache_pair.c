// A producer and a consumer on two CPUs that share a cache. Each is bound to its CPU, and they
// exchange values through a monitor, so neither spins and neither allocates. cache_pair [CPU CPU]
// To find CPUs that share a cache: `punctual machine place beside --cpu N`.
#include "common.h"
#include <pthread.h>

enum { VALUES = 1000 };

static punctual_monitor_t storage;
static punctual_monitor_h monitor;
static int ready, value;

static void bind(uint32_t cpu) {
  if (punctual_set_affinity(&cpu, 1) < 0)
    printf("not bound: %s\n", punctual_last_error());
}

static void *produce(void *cpu) {
  bind(*(uint32_t *)cpu);
  be_real_time(50);
  for (int next = 1; next <= VALUES; next++) {
    must(punctual_monitor_lock(monitor), "lock");
    while (ready)
      must(punctual_monitor_wait(monitor), "wait");
    value = next;
    ready = 1;
    // Notify with the lock held: the waiter then queues for the lock by priority.
    must(punctual_monitor_notify_one(monitor), "notify");
    must(punctual_monitor_unlock(monitor), "unlock");
  }
  return NULL;
}

int main(int count, char **arguments) {
  uint32_t cpus[2] = {0, 0};
  for (int place = 0; place < 2 && count == 3; place++)
    cpus[place] = (uint32_t)atol(arguments[place + 1]);
  must(punctual_monitor_new(&storage, &monitor), "monitor");
  pthread_t producer;
  if (pthread_create(&producer, NULL, produce, &cpus[0]) != 0)
    return 1;
  bind(cpus[1]);
  long sum = 0;
  for (int taken = 0; taken < VALUES; taken++) {
    must(punctual_monitor_lock(monitor), "lock");
    while (!ready)
      must(punctual_monitor_wait(monitor), "wait");
    sum += value;
    ready = 0;
    must(punctual_monitor_notify_one(monitor), "notify");
    must(punctual_monitor_unlock(monitor), "unlock");
  }
  pthread_join(producer, NULL);
  punctual_monitor_drop(monitor);
  printf("%d values passed\n", VALUES);
  return sum == (long)VALUES * (VALUES + 1) / 2 ? 0 : 1;
}
