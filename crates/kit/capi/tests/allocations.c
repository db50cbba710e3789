// Checks the counts of the allocation guard. Compiled with interpose/punctual_malloc.c. With an
// argument, checks the error without that file.
#include "punctual.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept;

static void *other_thread(void *unused) {
  for (int i = 0; i < 100; i++)
    free(kept = malloc(10));
  return unused;
}

static uint64_t count(punctual_allocation_guard_h guard, punctual_violations_t *seen) {
  seen->size = sizeof *seen;
  if (punctual_allocation_guard_violations(guard, seen) != 0)
    exit(1);
  return seen->count;
}

int main(int argc, char **argv) {
  punctual_allocation_guard_h guard;
  punctual_allocation_guard_t storage;
  punctual_violations_t seen;
  pthread_t thread;
  void *memory;
  int result = punctual_allocation_guard_new(&storage, &guard);

  (void)argv;
  if (argc > 1)
    return result == -EOPNOTSUPP && strstr(punctual_last_error(), "punctual_malloc.c") ? 0 : 2;
  if (result != 0) {
    printf("%s\n", punctual_last_error());
    return 3;
  }
  free(kept = malloc(10));
  if (count(guard, &seen) != 0)
    return 4;
  punctual_allocation_guard_enter(guard);
  kept = malloc(100);
  kept = realloc(kept, 1000);
  free(kept);
  free(kept = calloc(3, 5));
  kept = aligned_alloc(64, 128);
  free(kept);
  if (posix_memalign(&memory, 4096, 10) != 0 || (uintptr_t)memory % 4096 != 0)
    return 5;
  free(memory);
  /* Another thread is in no region. */
  punctual_allocation_guard_leave(guard);
  pthread_create(&thread, NULL, other_thread, NULL);
  punctual_allocation_guard_enter(guard);
  pthread_join(thread, NULL);
  punctual_allocation_guard_leave(guard);
  free(kept = malloc(10));
  count(guard, &seen);
  /* pthread_join may free memory of the thread. */
  if (seen.count < 9 || seen.count > 12 || seen.first_address == 0) {
    printf("%llu at %llx\n", (unsigned long long)seen.count,
           (unsigned long long)seen.first_address);
    return 6;
  }
  if (posix_memalign(&memory, 3, 10) != EINVAL)
    return 7;
  punctual_allocation_guard_drop(guard);
  if (punctual_allocation_guard_enter(NULL) != -EINVAL)
    return 8;
  return 0;
}
