/* A server with processes that serve one client each. Each job needs a lock that the processes share,
 * and computes while it holds the lock. The clients send the next request at once, so a process
 * waits longer for the lock than for its client. Prints the PID of each process and the descriptors
 * of its two epoll files: for its client, and for its turn at the lock. Ends when its input ends.
 *
 * siblings COUNT: number of processes */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 8
#define HELD_NS 400000LL

/* A lock that is handed on in the order of the tickets. */
struct lock {
  uint32_t next, serving;
  /* The process that waits with a ticket, plus one. */
  uint32_t waiter[MOST];
};

static struct lock *lock;
static int turns[MOST];

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void wait_in(int epoll) {
  struct epoll_event found;
  while (epoll_wait(epoll, &found, 1, -1) < 1);
}

static int epoll_for(int descriptor) {
  struct epoll_event wanted = { .events = EPOLLIN };
  int epoll = epoll_create1(0);
  if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &wanted)) exit(3);
  return epoll;
}

static void wake(int process) {
  uint64_t one = 1;
  if (write(turns[process], &one, 8) != 8) exit(3);
}

static void serve(int index, int client) {
  int for_client = epoll_for(client), for_turn = epoll_for(turns[index]);
  char request;
  uint64_t count;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  printf("%d %d %d\n", getpid(), for_client, for_turn);
  fflush(stdout);
  for (;;) {
    wait_in(for_client);
    if (read(client, &request, 1) != 1) exit(0);
    uint32_t ticket = __atomic_fetch_add(&lock->next, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&lock->waiter[ticket % MOST], index + 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&lock->serving, __ATOMIC_SEQ_CST) != ticket) {
      wait_in(for_turn);
      if (read(turns[index], &count, 8) != 8) exit(3);
    }
    for (int64_t end = now() + HELD_NS; now() < end;);
    __atomic_store_n(&lock->waiter[ticket % MOST], 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&lock->serving, ticket + 1, __ATOMIC_SEQ_CST);
    uint32_t waiter = __atomic_load_n(&lock->waiter[(ticket + 1) % MOST], __ATOMIC_SEQ_CST);
    if (waiter) wake(waiter - 1);
    if (write(client, &request, 1) != 1) exit(0);
  }
}

static void *ask(void *argument) {
  int server = (int)(intptr_t)argument;
  for (char byte = 0;;)
    if (write(server, &byte, 1) != 1 || read(server, &byte, 1) != 1) exit(3);
  return NULL;
}

int main(int arguments, char **argument) {
  int count = arguments < 2 ? 0 : atoi(argument[1]), ends[MOST][2];
  pthread_t made;
  if (count < 1 || count >= MOST) return 3;
  lock = mmap(NULL, sizeof *lock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (lock == MAP_FAILED) return 3;
  for (int i = 0; i < count; i++) {
    turns[i] = eventfd(0, 0);
    if (turns[i] < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i])) return 3;
  }
  for (int i = 0; i < count; i++) {
    pid_t pid = fork();
    if (pid < 0) return 3;
    if (!pid) serve(i, ends[i][1]);
  }
  for (int i = 0; i < count; i++)
    if (pthread_create(&made, NULL, ask, (void *)(intptr_t)ends[i][0])) return 3;
  while (getchar() != EOF);
  return 0;
}
