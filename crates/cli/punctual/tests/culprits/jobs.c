/* An application whose jobs are delayed on purpose, in one way after the other. Each
 * way prints what it took: NAME, the kind of share, the beginning of whom it names, and
 * from when to when, on CLOCK_MONOTONIC, separated by tabs.
 *
 * jobs CPU FOLDER [WAY...]: the CPU all threads are bound to, a folder for its file, and
 * the names of the ways, by default all but quota; with quota it only uses more CPU time than its
 * group may, whose cpu.stat can follow. For the flood of softirqs, its network namespace must direct
 * the packets of the loopback device to CPU (rps_cpus).
 *
 * With JOBS_PER_SECOND, each way delays this number of jobs a second on average, at random times and
 * independently of the other ways. These are then the jobs of the thread `turns`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
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
#define PERIOD (10 * MS)
#define EACH 4
typedef unsigned long long ns;

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, inherits;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
enum { HOLDER, MID, SIGNALLER, OWNER, ELSEWHERE, SLEEPER, ABOVE, EQUAL, FIRST, SECOND, THIRD, MOVER,
       BUSY, FLOODER, TASKS };
static int cpu, second, ready, tids[TASKS], pipes[2], orders[2], stops[2], full[2], drains[2];
static int request, flood;
static pid_t producer, stopper, peer, consumer, sharer;
static struct { sem_t go; ns at, from, to; } task[TASKS];
static sem_t links[3];
static struct { ns from, to; } stopped;

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
static int move_to(pid_t thread, int on) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(on, &set);
    return sched_setaffinity(thread, sizeof set, &set);
}
static void be_on(const char *name, int priority, int on) {
    struct sched_param p = { .sched_priority = priority };
    prctl(PR_SET_NAME, name);
    if (move_to(0, on) || sched_setscheduler(0, SCHED_FIFO, &p))
        exit(3);
}
static void be(const char *name, int priority) { be_on(name, priority, cpu); }
/* Another CPU, if the program may use one. */
static int another(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) exit(3);
    for (int n = 0; n < CPU_SETSIZE; n++)
        if (n != cpu && CPU_ISSET(n, &set)) return n;
    return cpu;
}
static void spins(int n, ns until) {
    task[n].from = now();
    spin(until);
    task[n].to = now();
}
/* Threads that wait for an order: when the next job is released. */
static void *thread(void *which) {
    long n = (long)which;
    const char *names[] = { "holder", "mid", "signaller", "owner", "elsewhere", "sleeper", "above",
                            "equal", "first", "second", "third", "mover", "busy", "flooder" };
    int priorities[] = { 10, 20, 30, 10, 10, 30, 60, 50, 30, 30, 30, 60, 55, 10 };
    be_on(names[n], priorities[n], n == ELSEWHERE || n == BUSY || n == FLOODER ? second : cpu);
    tids[n] = syscall(SYS_gettid);
    for (;;) {
        sem_wait(&task[n].go);
        ns at = task[n].at;
        pthread_mutex_t *lock = n == HOLDER || n == SLEEPER ? &plain : &inherits;
        switch (n) {
        case HOLDER:
        case OWNER:
        case ELSEWHERE:
        case SLEEPER:
            sleep_until(at - MS);
            pthread_mutex_lock(lock);
            if (n == SLEEPER) sleep_until(at + 4 * MS);
            else spin(at + 4 * MS);
            pthread_mutex_unlock(lock);
            break;
        case MID: sleep_until(at + MS); spins(n, at + 3 * MS); break;
        case ABOVE: sleep_until(at + MS); spins(n, at + 4 * MS); break;
        case EQUAL: sleep_until(at - MS); spins(n, at + 3 * MS); break;
        case BUSY: sleep_until(at + MS / 2); spins(n, at + 4 * MS); break;
        case MOVER:
            sleep_until(at + MS);
            task[n].from = now();
            move_to(getpid(), second);
            break;
        case FIRST:
        case SECOND:
            sem_wait(&links[n - FIRST + 1]);
            sem_post(&links[n - FIRST]);
            break;
        case THIRD:
            sleep_until(at - MS);
            spin(at + 3 * MS);
            sem_post(&links[2]);
            break;
        case FLOODER:
            sleep_until(at - MS);
            while (now() < at + 3 * MS)
                if (send(flood, &at, sizeof at, 0) < 0) exit(3);
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
/* A socket of the loopback device that is bound, and one that is connected to it. */
static void connected(int sockets[2]) {
    struct sockaddr_in place = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof place;
    for (int n = 0; n < 2; n++) {
        place.sin_port = 0;
        sockets[n] = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(sockets[n], (void *)&place, length)) exit(3);
    }
    for (int n = 0; n < 2; n++) {
        getsockname(sockets[!n], (void *)&place, &length);
        if (connect(sockets[n], (void *)&place, length)) exit(3);
    }
}
/* Sleeps before it answers. */
static void answer(int socket) {
    ns at;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("peer", 30);
    while (recv(socket, &at, sizeof at, 0) == sizeof at) {
        usleep(3000);
        if (send(socket, &at, sizeof at, 0) < 0) exit(3);
    }
    exit(0);
}
/* Computes before it empties the full pipe. */
static void consume(void) {
    char data[1 << 16];
    ns at;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("consumer", 30);
    while (read(drains[0], &at, sizeof at) == sizeof at) {
        sleep_until(at - MS);
        spin(at + 3 * MS);
        if (read(full[0], data, sizeof data) < 0) exit(3);
    }
    exit(0);
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
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("stopper", 60);
    while (read(stops[0], &stopped, sizeof stopped) == sizeof stopped) {
        sleep_until(stopped.from);
        kill(getppid(), SIGSTOP);
        sleep_until(stopped.to);
        kill(getppid(), SIGCONT);
    }
    exit(0);
}
static void order(int n, ns at) {
    task[n].at = at;
    sem_post(&task[n].go);
}

static char *page, *block, *fresh, *shared;
static int file, memory;
enum { LOCK, PI, CONDITION, PIPE, FSYNC, FAULT, STOP, CALL, OVERRUN, SLEEP, SPIN, LATE, TOUCH,
       HIGHER, PEERS, HOLDS, SLEEPS, COPY, NETWORK, FULL, CHAIN, MIGRATE, FLOOD, WAYS };
static const char *const names[WAYS] = {
    "lock", "pi", "condition", "pipe", "fsync", "fault", "stop", "call", "overrun", "sleep", "spin",
    "late", "touch", "higher", "peers", "holds", "sleeps", "copy", "network", "full", "chain",
    "migrate", "flood"
};
enum { HUGE = 2 << 20, TOUCHED = 8, SHARED = 8 << 20 };
static void stop_between(ns from, ns to) {
    stopped.from = from;
    stopped.to = to;
    if (write(stops[1], &stopped, sizeof stopped) < 0) exit(3);
}

static void prepare(int way, ns at) {
    switch (way) {
    case LOCK: order(HOLDER, at); order(MID, at); break;
    case PI: order(OWNER, at); order(MID, at); break;
    case CONDITION: ready = 0; order(SIGNALLER, at); break;
    case PIPE: if (write(orders[1], &at, sizeof at) < 0) exit(3); break;
    case STOP: stop_between(at + MS, at + 4 * MS); break;
    case LATE: stop_between(at - 2 * MS, at + 3 * MS); break;
    case SPIN: order(ELSEWHERE, at); break;
    case TOUCH: madvise(fresh, TOUCHED * HUGE, MADV_DONTNEED); break;
    case HIGHER: order(ABOVE, at); break;
    case PEERS: order(EQUAL, at); break;
    case HOLDS: order(HOLDER, at); break;
    case SLEEPS: order(SLEEPER, at); break;
    case CHAIN: for (int n = FIRST; n <= THIRD; n++) order(n, at); break;
    case MIGRATE: if (second != cpu) order(MOVER, at), order(BUSY, at); break;
    case FLOOD: if (second != cpu) order(FLOODER, at); break;
    case COPY:
        if (sharer) kill(sharer, SIGKILL), waitpid(sharer, NULL, 0);
        memset(shared, 1, SHARED);
        if (!(sharer = fork())) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
        break;
    case FULL:
        fcntl(full[1], F_SETFL, O_NONBLOCK);
        while (write(full[1], block, 4096) > 0);
        fcntl(full[1], F_SETFL, 0);
        if (write(drains[1], &at, sizeof at) < 0) exit(3);
        break;
    case FAULT:
        fdatasync(file);
        madvise(page, 1 << 20, MADV_DONTNEED);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        break;
    }
}
/* The job; begins at its release. */
static void work(int way, ns at) {
    char who[96] = "";
    ns from = now(), to = from;
    switch (way) {
    case LOCK:
        pthread_mutex_lock(&plain);
        pthread_mutex_unlock(&plain);
        snprintf(who, sizeof who, "holder-%d, preempted by mid-%d", tids[HOLDER], tids[MID]);
        truth("lock", "lock_holder", who, task[MID].from, task[MID].to);
        return;
    case HOLDS:
    case SLEEPS:
        pthread_mutex_lock(&plain);
        to = now();
        pthread_mutex_unlock(&plain);
        if (way == HOLDS) snprintf(who, sizeof who, "holder-%d", tids[HOLDER]);
        else snprintf(who, sizeof who, "sleeper-%d, which slept", tids[SLEEPER]);
        truth(way == HOLDS ? "holds" : "sleeps", "lock_holder", who, from, to);
        return;
    case HIGHER:
        spin(at + 5 * MS);
        snprintf(who, sizeof who, "above-%d", tids[ABOVE]);
        truth("higher", "higher_priority", who, task[ABOVE].from, task[ABOVE].to);
        return;
    case PEERS:
        snprintf(who, sizeof who, "equal-%d", tids[EQUAL]);
        truth("peers", "competing", who, at, task[EQUAL].to);
        return;
    case MIGRATE:
        if (second == cpu) return;
        spin(at + 5 * MS);
        snprintf(who, sizeof who, "busy-%d", tids[BUSY]);
        truth("migrate", "higher_priority", who, task[MOVER].from, task[BUSY].to);
        if (move_to(0, cpu)) exit(3);
        return;
    case FLOOD: {
        ns sum = 0;
        for (ns last = from, time; last < at + 4 * MS; last = time)
            if ((time = now()) - last > 1000) sum += time - last;
        truth("flood", "softirq", "NET_RX", from, from + sum);
        return;
    }
    case COPY: {
        ns sum = 0;
        for (int i = 0; i < SHARED; i += 4096) {
            ns before = now();
            *(volatile char *)(shared + i) = 2;
            sum += now() - before;
        }
        truth("copy", "page_fault", "page faults", from, from + sum);
        return;
    }
    case NETWORK:
        if (send(request, &at, sizeof at, 0) < 0) exit(3);
        from = now();
        if (recv(request, &at, sizeof at, 0) < 0) exit(3);
        snprintf(who, sizeof who, "peer-%d", peer);
        truth("network", "waiting", who, from, now());
        return;
    case FULL:
        if (write(full[1], block, 4096) < 0) exit(3);
        snprintf(who, sizeof who, "consumer-%d", consumer);
        truth("full", "waiting", who, from, now());
        return;
    case CHAIN:
        sem_wait(&links[0]);
        snprintf(who, sizeof who, "first-%d, which waited for second-%d, which waited for third-%d",
                 tids[FIRST], tids[SECOND], tids[THIRD]);
        truth("chain", "waiting", who, from, now());
        return;
    case PI:
    case SPIN:
        pthread_mutex_lock(&inherits);
        to = now();
        pthread_mutex_unlock(&inherits);
        if (way == PI) snprintf(who, sizeof who, "owner-%d", tids[OWNER]);
        else snprintf(who, sizeof who, "elsewhere-%d", tids[ELSEWHERE]);
        truth(way == PI ? "pi" : "spin", "lock_holder", who, from, to);
        return;
    case LATE:
        snprintf(who, sizeof who, "signal 19 from stopper-%d", stopper);
        truth("late", "stopped", who, at, from);
        return;
    case TOUCH: {
        ns sum = 0;
        for (int i = 0; i < TOUCHED; i++) {
            ns before = now();
            *(volatile char *)(fresh + i * HUGE) = 1;
            sum += now() - before;
            /* Without huge pages, the faults alone are shorter than the budget. */
            spin(now() + MS / 5);
        }
        truth("touch", "page_fault", "page faults", from, from + sum);
        return;
    }
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

/* Returns how often the group was throttled, by its cpu.stat. */
static long throttled(const char *stat) {
    char line[128];
    long times = 0;
    FILE *in = stat ? fopen(stat, "r") : NULL;
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, "nr_throttled ", 13)) times = atol(line + 13);
    if (in) fclose(in);
    return times;
}

/* Of each 10 ms 4 ms: more than the quota of its group; real-time threads have none. `stat` is the
 * group's cpu.stat, or NULL: on a busy machine, it separates a quota from turns of other threads. */
static void exceed(const char *stat) {
    for (ns at = now() + PERIOD;; at = now() / PERIOD * PERIOD + PERIOD) {
        sleep_until(at);
        long before = throttled(stat);
        ns used = thread_time(), from = now(), last = from, sum = 0;
        while (thread_time() < used + 4 * MS) {
            spin(now() + MS / 10);
            ns time = now();
            if (time - last > MS / 5) {
                long times = throttled(stat);
                /* Shorter gaps are turns of other threads. */
                if (time - last > PERIOD && (!stat || times > before)) sum += time - last;
                before = times;
                time = now();
            }
            last = time;
        }
        if (sum) truth("quota", "throttled", "CPU quota of ", from, from + sum);
    }
}

static int ways[WAYS], chosen;
static void *turns(void *none) {
    const char *rate = getenv("JOBS_PER_SECOND");
    if (rate) be("turns", 50);
    double chance = rate ? atof(rate) * PERIOD / (1000.0 * MS) : 0;
    srand48(now());
    ns at = now() + PERIOD;
    for (unsigned turn = 0;; turn++) {
        int way = ways[turn / EACH % chosen], delayed = turn % EACH == EACH - 1;
        if (rate) {
            delayed = 0;
            for (int n = 0; n < chosen; n++)
                if (drand48() < chance) delayed = 1, way = ways[n];
        }
        if (delayed) prepare(way, at);
        sleep_until(at);
        if (delayed) work(way, at);
        else spin(now() + 50000);
        for (at += PERIOD; at < now() + MS;) at += PERIOD;
    }
    return none;
}

int main(int count, char **arguments) {
    pthread_mutexattr_t attributes;
    char path[4096];
    int sockets[2];
    if (count < 3) return 2;
    cpu = atoi(arguments[1]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 3 && !strcmp(arguments[3], "quota")) exceed(count > 4 ? arguments[4] : NULL);
    snprintf(path, sizeof path, "%s/jobs.data", arguments[2]);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memory = memfd_create("jobs", 0);
    block = malloc(8 << 20);
    memset(block, 7, 8 << 20);
    if (file < 0 || memory < 0 || pwrite(file, block, 1 << 20, 0) < 0) return 3;
    page = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, file, 0);
    madvise(page, 1 << 20, MADV_RANDOM);
    fresh = mmap(NULL, (TOUCHED + 1) * HUGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fresh += HUGE - (unsigned long)fresh % HUGE;
    shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(shared, SHARED, MADV_NOHUGEPAGE);
    for (int n = 0; n < 3; n++) sem_init(&links[n], 0, 0);
    madvise(fresh, TOUCHED * HUGE, MADV_HUGEPAGE);
    second = another();
    for (int way = 0; way < WAYS; way++) {
        int named = count == 3;
        for (int n = 3; n < count; n++) named |= !strcmp(arguments[n], names[way]);
        if (named) ways[chosen++] = way;
    }
    if (!chosen) return 2;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inherits, &attributes);
    if (pipe(pipes) || pipe(orders) || pipe(stops) || pipe(full) || pipe(drains)) return 3;
    connected(sockets);
    request = sockets[0];
    if (!(peer = fork())) answer(sockets[1]);
    connected(sockets);
    flood = sockets[0];
    if (!(consumer = fork())) consume();
    if (!(producer = fork())) produce();
    if (!(stopper = fork())) stop();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be("victim", 50);
    for (long n = 0; n < TASKS; n++) {
        pthread_t made;
        sem_init(&task[n].go, 0, 0);
        pthread_create(&made, NULL, thread, (void *)n);
    }
    /* Helper threads have jobs too. A single thread can be watched without them. */
    if (getenv("JOBS_PER_SECOND")) {
        pthread_t made;
        pthread_create(&made, NULL, turns, NULL);
        pthread_join(made, NULL);
    }
    turns(NULL);
}
