/* A loop that is released by newer system calls, in one of these ways:
 *
 * uring: completions of io_uring, of a timer, and of a read from a pipe in some jobs
 * futex: futex_wait(2) for a thread, and futex_waitv(2) or futex_wait(2) for another one in some
 *        jobs
 * epoll: epoll_pwait2(2) with a timer, and with an eventfd in some jobs
 *
 * Each eighth job waits for a thread that computes for 3 ms. For each of them, prints the beginning
 * of the thread's name, and from when to when the job waited, on CLOCK_MONOTONIC. Ends with 2 and a
 * reason if a system call is missing or not permitted.
 *
 * releases uring|futex|epoll CPU: the CPU that all threads are bound to */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <linux/io_uring.h>

#define MS 1000000LL
#define PERIOD (5 * MS)

/* The numbers are the same on all architectures but alpha. */
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define CALL_futex_wake 454
#define CALL_futex_wait 455
#define SIZE_U32_PRIVATE (0x02 | 128)

struct awaited {
  uint64_t value, address;
  uint32_t flags, reserved;
};

static uint32_t released, answered, ordered;
static int pipes[2], event;
static char kind;
static int cpu, helper_tid;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void fail(const char *call) {
  fprintf(stderr, "%s: %s (os error %d)\n", call, strerror(errno), errno);
  exit(2);
}

static void be(const char *name, int priority) {
  struct sched_param p = { .sched_priority = priority };
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  prctl(PR_SET_NAME, name);
  if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &p))
    fail("sched_setscheduler");
}

static void sleep_until(int64_t at) {
  struct timespec t = { at / (1000 * MS), at % (1000 * MS) };
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR);
}

static uint32_t load(uint32_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }

static void post(uint32_t *word) {
  __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
  if (syscall(CALL_futex_wake, word, ~0U, 1, SIZE_U32_PRIVATE) < 0) fail("futex_wake");
}

static void await(uint32_t *word, uint32_t old) {
  while (load(word) == old)
    if (syscall(CALL_futex_wait, word, (uint64_t)old, ~0U, SIZE_U32_PRIVATE, NULL, CLOCK_MONOTONIC)
        && errno != EAGAIN && errno != EINTR)
      fail("futex_wait");
}

/* Computes for 3 ms, and then wakes the loop. */
static void *helper(void *nothing) {
  uint32_t seen = 0;
  be("helper", 30);
  helper_tid = syscall(SYS_gettid);
  for (uint64_t one = 1;; seen++) {
    await(&ordered, seen);
    for (int64_t end = now() + 3 * MS; now() < end;);
    switch (kind) {
    case 'u': if (write(pipes[1], &one, 8) != 8) exit(3); break;
    case 'e': if (write(event, &one, 8) != 8) exit(3); break;
    default: post(&answered);
    }
  }
  return nothing;
}

static void *ticker(void *nothing) {
  be("ticker", 60);
  for (int64_t at = now();;) {
    sleep_until(at += PERIOD);
    post(&released);
  }
  return nothing;
}

/* A ring of io_uring with one operation at a time. */
struct ring {
  int descriptor;
  uint32_t *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail;
  struct io_uring_sqe *operations;
};

static struct ring ring_of(void) {
  struct io_uring_params p = { 0 };
  struct ring ring = { .descriptor = syscall(SYS_io_uring_setup, 4, &p) };
  if (ring.descriptor < 0) fail("io_uring_setup");
  int protection = PROT_READ | PROT_WRITE, fd = ring.descriptor;
  char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, protection, MAP_SHARED, fd,
                  IORING_OFF_SQ_RING);
  char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), protection,
                  MAP_SHARED, fd, IORING_OFF_CQ_RING);
  ring.operations = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), protection, MAP_SHARED,
                         fd, IORING_OFF_SQES);
  if (sq == MAP_FAILED || cq == MAP_FAILED || ring.operations == MAP_FAILED) fail("mmap");
  ring.sq_tail = (uint32_t *)(sq + p.sq_off.tail);
  ring.sq_mask = (uint32_t *)(sq + p.sq_off.ring_mask);
  ring.sq_array = (uint32_t *)(sq + p.sq_off.array);
  ring.cq_head = (uint32_t *)(cq + p.cq_off.head);
  ring.cq_tail = (uint32_t *)(cq + p.cq_off.tail);
  return ring;
}

/* Submits an operation and waits for its completion. */
static void complete(struct ring *ring, struct io_uring_sqe operation) {
  uint32_t tail = *ring->sq_tail, slot = tail & *ring->sq_mask;
  ring->operations[slot] = operation;
  ring->sq_array[slot] = slot;
  __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
  for (unsigned submit = 1;; submit = 0) {
    int done = syscall(SYS_io_uring_enter, ring->descriptor, submit, 1, IORING_ENTER_GETEVENTS,
                       NULL, 0);
    if (done < 0 && errno != EINTR) fail("io_uring_enter");
    if (*ring->cq_head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) break;
  }
  __atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
}

static void wait_for_event(int epoll) {
  struct epoll_event found;
  while (syscall(SYS_epoll_pwait2, epoll, &found, 1, NULL, NULL, 8) < 0)
    if (errno != EINTR) fail("epoll_pwait2");
}

static int epoll_for(int descriptor) {
  struct epoll_event wanted = { .events = EPOLLIN };
  int epoll = epoll_create1(0);
  if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &wanted)) fail("epoll_ctl");
  return epoll;
}

int main(int count, char **arguments) {
  pthread_t made;
  struct ring timers = { 0 }, reads = { 0 };
  int timer = -1, for_timer = -1, for_event = -1;
  uint64_t one;
  if (count < 3) return 3;
  kind = arguments[1][0];
  cpu = atoi(arguments[2]);
  be("loop", 50);
  /* An old kernel has no such call. */
  if (syscall(CALL_futex_wake, &released, ~0U, 1, SIZE_U32_PRIVATE) < 0) fail("futex_wake");
  switch (kind) {
  case 'u':
    timers = ring_of();
    reads = ring_of();
    if (pipe(pipes)) return 3;
    break;
  case 'e': {
    struct itimerspec each = { { 0, PERIOD }, { 0, PERIOD } };
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &each, NULL);
    event = eventfd(0, 0);
    for_timer = epoll_for(timer);
    for_event = epoll_for(event);
    break;
  }
  default:
    pthread_create(&made, NULL, ticker, NULL);
  }
  pthread_create(&made, NULL, helper, NULL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("runs");
  int64_t at = now();
  for (uint32_t turn = 1;; turn++) {
    switch (kind) {
    case 'u': {
      struct __kernel_timespec due;
      for (at += PERIOD; at < now(); at += PERIOD);
      due.tv_sec = at / (1000 * MS);
      due.tv_nsec = at % (1000 * MS);
      complete(&timers, (struct io_uring_sqe){
        .opcode = IORING_OP_TIMEOUT, .fd = -1, .addr = (uint64_t)&due, .len = 1,
        .timeout_flags = IORING_TIMEOUT_ABS });
      break;
    }
    case 'e':
      wait_for_event(for_timer);
      if (read(timer, &one, 8) != 8) exit(3);
      break;
    default:
      await(&released, load(&released));
    }
    if (turn % 8) continue;
    /* A waiter of futex_wait passes 0, which is also the number of FUTEX_WAIT. */
    __atomic_store_n(&answered, 0, __ATOMIC_SEQ_CST);
    int64_t from = now();
    post(&ordered);
    switch (kind) {
    case 'u':
      complete(&reads, (struct io_uring_sqe){
        .opcode = IORING_OP_READ, .fd = pipes[0], .addr = (uint64_t)&one, .len = 8, .off = -1 });
      break;
    case 'e':
      wait_for_event(for_event);
      if (read(event, &one, 8) != 8) exit(3);
      break;
    default: {
      struct awaited futexes[] = { { 0, (uint64_t)&answered, SIZE_U32_PRIVATE, 0 } };
      if (turn % 16) await(&answered, 0);
      while (!load(&answered))
        if (syscall(SYS_futex_waitv, futexes, 1, 0, NULL, CLOCK_MONOTONIC) < 0
            && errno != EAGAIN && errno != EINTR)
          fail("futex_waitv");
    }
    }
    printf("helper-%d\t%lld\t%lld\n", helper_tid, (long long)from, (long long)now());
  }
}
