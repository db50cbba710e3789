/* A pipeline of four processes: sensor, filter, plan, motor. The sensor wakes each 20 ms, and each
 * process computes for a known time and hands over to the next one.
 *
 * chain HOW CPU CPU: with pipes, UDP on the loopback device, a futex in shared memory, pipes through
 * io_uring (the second one with workers of the kernel), or mixed. Prints for each round when the sensor was due and when the motor had finished, on CLOCK_MONOTONIC. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ULL
enum { STAGES = 4, ROUNDS = 40 };
enum { PIPE, UDP, FUTEX, URING, WORKERS };
typedef unsigned long long ns;

static const char *const names[STAGES] = {"c-sensor", "c-filter", "c-plan", "c-motor"};
/* CPU time of each process in a round, in us. The plan also sleeps for 1 ms. */
static const int busy[STAGES] = {1000, 1500, 1200, 1000};

struct link {
    int how, ends[2];
    ns *message; /* in shared memory */
    int *ready;
};

/* The queues of io_uring of this process, with room for one request. */
static struct {
    int fd;
    unsigned char *queues;
    struct io_uring_sqe *request;
    struct io_uring_params at;
} uring;

static void start_uring(void) {
    uring.fd = syscall(SYS_io_uring_setup, 1, &uring.at);
    if (uring.fd < 0) _exit(5);
    int access = PROT_READ | PROT_WRITE;
    size_t size = uring.at.cq_off.cqes + uring.at.cq_entries * sizeof(struct io_uring_cqe);
    size_t other = uring.at.sq_off.array + uring.at.sq_entries * sizeof(unsigned);
    uring.queues = mmap(0, size > other ? size : other, access, MAP_SHARED, uring.fd, IORING_OFF_SQ_RING);
    uring.request = mmap(0, sizeof *uring.request, access, MAP_SHARED, uring.fd, IORING_OFF_SQES);
    if (uring.queues == MAP_FAILED || uring.request == MAP_FAILED) _exit(5);
}

/* Reads or writes a message, and waits for the end. */
static int through_uring(int how, int operation, int fd, ns *message) {
    unsigned *sent = (unsigned *)(uring.queues + uring.at.sq_off.tail);
    unsigned *taken = (unsigned *)(uring.queues + uring.at.cq_off.head);
    unsigned *done = (unsigned *)(uring.queues + uring.at.cq_off.tail);
    unsigned mask = *(unsigned *)(uring.queues + uring.at.cq_off.ring_mask);
    struct io_uring_cqe *results = (void *)(uring.queues + uring.at.cq_off.cqes);
    memset(uring.request, 0, sizeof *uring.request);
    uring.request->opcode = operation;
    uring.request->flags = how == WORKERS ? IOSQE_ASYNC : 0;
    uring.request->fd = fd;
    uring.request->off = -1;
    uring.request->addr = (unsigned long)message;
    uring.request->len = sizeof *message;
    *(unsigned *)(uring.queues + uring.at.sq_off.array) = 0;
    __atomic_store_n(sent, *sent + 1, __ATOMIC_RELEASE);
    int new = 1;
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) == *taken) {
        if (syscall(SYS_io_uring_enter, uring.fd, new, 1, IORING_ENTER_GETEVENTS, 0, 0) >= 0) new = 0;
    }
    int result = results[*taken & mask].res;
    __atomic_store_n(taken, *taken + 1, __ATOMIC_RELEASE);
    return result;
}

static ns on(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static void sleep_until(ns at) {
    struct timespec time = {at / (1000 * MS), at % (1000 * MS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, 0)) {}
}

static void compute(int us) {
    ns until = on(CLOCK_THREAD_CPUTIME_ID) + us * 1000ULL;
    while (on(CLOCK_THREAD_CPUTIME_ID) < until) {}
}

static void connect_them(struct link *link, int how, ns *shared) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    link->how = how;
    link->message = shared;
    link->ready = (int *)(shared + 1);
    if ((how == PIPE || how >= URING) && pipe(link->ends)) exit(3);
    if (how != UDP) return;
    link->ends[0] = socket(AF_INET, SOCK_DGRAM, 0);
    link->ends[1] = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(link->ends[0], (void *)&at, size) || getsockname(link->ends[0], (void *)&at, &size) ||
        connect(link->ends[1], (void *)&at, size))
        exit(3);
}

static void hand_over(struct link *link, ns message) {
    if (link->how >= URING) {
        if (through_uring(link->how, IORING_OP_WRITE, link->ends[1], &message) != sizeof message) exit(3);
        return;
    }
    if (link->how != FUTEX) {
        if (write(link->ends[1], &message, sizeof message) != sizeof message) exit(3);
        return;
    }
    *link->message = message;
    __atomic_store_n(link->ready, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, link->ready, FUTEX_WAKE, 1, 0, 0, 0);
}

static ns take(struct link *link) {
    ns message = 0;
    if (link->how >= URING) {
        if (through_uring(link->how, IORING_OP_READ, link->ends[0], &message) != sizeof message) exit(0);
        return message;
    }
    if (link->how != FUTEX) {
        if (read(link->ends[0], &message, sizeof message) != sizeof message) exit(0);
        return message;
    }
    while (!__atomic_exchange_n(link->ready, 0, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, link->ready, FUTEX_WAIT, 0, 0, 0, 0);
    return *link->message;
}

static void stage(int number, struct link *links, int cpu) {
    if (links[0].how == URING) start_uring();
    struct sched_param priority = {50 + number};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    prctl(PR_SET_NAME, names[number]);
    if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &priority)) {
        perror("SCHED_FIFO");
        _exit(4);
    }
    ns due = on(CLOCK_MONOTONIC) + 50 * MS;
    for (int round = 0; round < ROUNDS; round++) {
        if (number == 0) sleep_until(due += 20 * MS);
        ns message = number ? take(&links[number - 1]) : due;
        compute(busy[number]);
        if (number == 2) sleep_until(on(CLOCK_MONOTONIC) + MS);
        if (number < STAGES - 1) hand_over(&links[number], message);
        else printf("%llu %llu\n", message, on(CLOCK_MONOTONIC));
    }
    fflush(stdout);
    struct sched_param none = {0};
    sched_setscheduler(0, SCHED_OTHER, &none);
    _exit(0);
}

int main(int count, char **arguments) {
    struct link links[STAGES - 1];
    int worst = 0, status;
    if (count != 4) return 2;
    setvbuf(stdout, 0, _IOFBF, 1 << 16);
    ns *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int n = 0; n < STAGES - 1; n++) {
        int how = !strcmp(arguments[1], "pipe")    ? PIPE
                  : !strcmp(arguments[1], "udp")   ? UDP
                  : !strcmp(arguments[1], "futex") ? FUTEX
                  : !strcmp(arguments[1], "uring") ? (n == 1 ? WORKERS : URING)
                                                   : n;
        connect_them(&links[n], how, shared + 8 * n);
    }
    for (int n = STAGES - 1; n >= 0; n--)
        if (!fork()) stage(n, links, atoi(arguments[2 + n % 2]));
    while (wait(&status) > 0)
        if (WIFEXITED(status) && WEXITSTATUS(status) > worst) worst = WEXITSTATUS(status);
    return worst;
}
