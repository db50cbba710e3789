// Helpers shared by the C examples.
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H
#define _GNU_SOURCE
#include "../include/punctual.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

// Exits the program if a call failed.
static inline int must(int result, const char *call) {
  if (result < 0) {
    fprintf(stderr, "%s: %s\n", call, punctual_last_error());
    exit(1);
  }
  return result;
}

// Makes this process as real-time as its limits allow, and prints what is missing.
static inline void be_real_time(int priority) {
  int highest = punctual_max_priority();
  punctual_policy_t policy = {.size = sizeof policy, .policy = SCHED_FIFO};
  policy.priority = priority < highest ? priority : highest;
  if (highest == 0)
    printf("no right to real-time priorities: running as a normal thread\n");
  else if (punctual_set_policy(&policy) < 0)
    printf("%s\n", punctual_last_error());
}
#endif
