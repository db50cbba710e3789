/* An application whose jobs are delayed on purpose, in one way after the other. Each
 * way prints what it took: NAME, the kind of share, the beginning of whom it names, and
 * from when to when, on CLOCK_MONOTONIC, separated by tabs.
 *
 * jobs CPU FOLDER [quota]: the CPU all threads are bound to, and a folder for its
 * file; with quota it only uses more CPU time than its group may. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ULL
#define PERIOD (10 * MS)
#define EACH 4
typedef unsigned long long ns;

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, inherits;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int cpu, ready, tids[4], pipes[2], orders[2], stops[2];
static pid_t producer, stopper;
static ns mid_from, mid_to;
enum { HOLDER, MID, SIGNALLER, OWNER };
static struct { sem_t go; ns at; } task[4];

static ns now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}
static ns thread_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}
static void spin(ns until) { while (now() < until); }
static void sleep_until(ns at) {
    struct timespec t = { at / (1000 * MS), at % (1000 * MS) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR);
}
static void truth(const char *name, const char *kind, const char *who, ns from, ns to) {
    printf("%s\t%s\t%s\t%llu\t%llu\n", name, kind, who, from, to);
}
static void be(const char *name, int priority) {
    struct sched_param p = { .sched_priority = priority };
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    prctl(PR_SET_NAME, name);
    if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &p))
        exit(3);
}
/* Threads that wait for an order: when the next job is released. */
static void *thread(void *which) {
    long n = (long)which;
    const char *names[] = { "holder", "mid", "signaller", "owner" };
    int priorities[] = { 10, 20, 30, 10 };
    be(names[n], priorities[n]);
    tids[n] = syscall(SYS_gettid);
    for (;;) {
        sem_wait(&task[n].go);
        ns at = task[n].at;
        pthread_mutex_t *lock = n == OWNER ? &inherits : &plain;
        switch (n) {
        case HOLDER:
        case OWNER:
            sleep_until(at - MS);
            pthread_mutex_lock(lock);
            spin(at + 4 * MS);
            pthread_mutex_unlock(lock);
            break;
        case MID:
            sleep_until(at + MS);
            mid_from = now();
            spin(at + 3 * MS);
            mid_to = now();
            break;
        case SIGNALLER:
            sleep_until(at - MS);
            spin(at + 3 * MS);
            pthread_mutex_lock(&guard);
            ready = 1;
            pthread_cond_signal(&condition);
            pthread_mutex_unlock(&guard);
            break;
        }
    }
    return NULL;
}
static void produce(void) {
    ns at;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("producer", 30);
    while (read(orders[0], &at, sizeof at) == sizeof at) {
        sleep_until(at - MS);
        spin(at + 3 * MS);
        if (write(pipes[1], &at, sizeof at) != sizeof at) exit(3);
    }
    exit(0);
}
static void stop(void) {
    ns at;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("stopper", 60);
    while (read(stops[0], &at, sizeof at) == sizeof at) {
        sleep_until(at + MS);
        kill(getppid(), SIGSTOP);
        sleep_until(at + 4 * MS);
        kill(getppid(), SIGCONT);
    }
    exit(0);
}
static void order(int n, ns at) {
    task[n].at = at;
    sem_post(&task[n].go);
}

static char *page, *block;
static int file, memory;
enum { LOCK, PI, CONDITION, PIPE, FSYNC, FAULT, STOP, CALL, OVERRUN, SLEEP, WAYS };

static void prepare(int way, ns at) {
    switch (way) {
    case LOCK: order(HOLDER, at); order(MID, at); break;
    case PI: order(OWNER, at); order(MID, at); break;
    case CONDITION: ready = 0; order(SIGNALLER, at); break;
    case PIPE: if (write(orders[1], &at, sizeof at) < 0) exit(3); break;
    case STOP: if (write(stops[1], &at, sizeof at) < 0) exit(3); break;
    case FAULT:
        fdatasync(file);
        madvise(page, 1 << 20, MADV_DONTNEED);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        break;
    }
}
/* The job; begins at its release. */
static void work(int way, ns at) {
    char who[64] = "";
    ns from = now(), to = from;
    switch (way) {
    case LOCK:
        pthread_mutex_lock(&plain);
        pthread_mutex_unlock(&plain);
        snprintf(who, sizeof who, "holder-%d, preempted by mid-%d", tids[HOLDER], tids[MID]);
        truth("lock", "lock_holder", who, mid_from, mid_to);
        return;
    case PI:
        pthread_mutex_lock(&inherits);
        to = now();
        pthread_mutex_unlock(&inherits);
        snprintf(who, sizeof who, "owner-%d", tids[OWNER]);
        truth("pi", "lock_holder", who, from, to);
        return;
    case CONDITION:
        pthread_mutex_lock(&guard);
        while (!ready) pthread_cond_wait(&condition, &guard);
        pthread_mutex_unlock(&guard);
        snprintf(who, sizeof who, "signaller-%d", tids[SIGNALLER]);
        truth("condition", "waiting", who, from, now());
        return;
    case PIPE:
        if (read(pipes[0], &at, sizeof at) != sizeof at) exit(3);
        snprintf(who, sizeof who, "producer-%d", producer);
        truth("pipe", "waiting", who, from, now());
        return;
    case FSYNC:
        if (pwrite(file, block, 1 << 20, 0) < 0) exit(3);
        from = now();
        fsync(file);
        truth("fsync", "device", "disk ", from, now());
        return;
    case FAULT:
        for (int i = 0; i < 1 << 20; i += 16384) *(volatile char *)(page + i);
        truth("fault", "page_fault", "", from, now());
        return;
    case STOP: {
        ns last = from, longest = 0;
        while (now() < at + 6 * MS) {
            ns time = now();
            if (time - last > longest) longest = time - last, from = last, to = time;
            last = time;
        }
        snprintf(who, sizeof who, "signal 19 from stopper-%d", stopper);
        truth("stop", "stopped", who, from, to);
        return;
    }
    case CALL:
        if (pwrite(memory, block, 8 << 20, 0) < 0) exit(3);
        truth("call", "system_call", "pwrite64", from, now());
        return;
    case OVERRUN:
        spin(from + 3 * MS);
        truth("overrun", "own_work", "user space", from, now());
        return;
    case SLEEP:
        usleep(3000);
        truth("sleep", "own_sleep", "its own timer", from, now());
        return;
    }
}

/* Of each 10 ms 4 ms: more than the quota of its group; real-time threads have none. */
static void exceed(void) {
    for (ns at = now() + PERIOD;; at = now() / PERIOD * PERIOD + PERIOD) {
        sleep_until(at);
        ns from = thread_time();
        while (thread_time() < from + 4 * MS) spin(now() + MS / 10);
    }
}

int main(int count, char **arguments) {
    pthread_mutexattr_t attributes;
    char path[4096];
    if (count < 3) return 2;
    cpu = atoi(arguments[1]);
    if (count > 3 && !strcmp(arguments[3], "quota")) exceed();
    snprintf(path, sizeof path, "%s/jobs.data", arguments[2]);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memory = memfd_create("jobs", 0);
    block = malloc(8 << 20);
    memset(block, 7, 8 << 20);
    if (file < 0 || memory < 0 || pwrite(file, block, 1 << 20, 0) < 0) return 3;
    page = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, file, 0);
    madvise(page, 1 << 20, MADV_RANDOM);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inherits, &attributes);
    if (pipe(pipes) || pipe(orders) || pipe(stops)) return 3;
    if (!(producer = fork())) produce();
    if (!(stopper = fork())) stop();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("victim", 50);
    for (long n = 0; n < 4; n++) {
        pthread_t made;
        sem_init(&task[n].go, 0, 0);
        pthread_create(&made, NULL, thread, (void *)n);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    ns at = now() + PERIOD;
    for (unsigned turn = 0;; turn++) {
        int way = turn / EACH % WAYS, delayed = turn % EACH == EACH - 1;
        if (delayed) prepare(way, at);
        sleep_until(at);
        if (delayed) work(way, at);
        else spin(now() + 50000);
        for (at += PERIOD; at < now() + MS;) at += PERIOD;
    }
}
