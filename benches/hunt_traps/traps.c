/* A program that makes the periods of a loop late only while two resources are busy at once.
 *
 * traps CPU TRAP: prints `ready` when it waits. A thread at priority 90 on CPU looks each 20 ms at
 * both resources. If both were busy in the last 100 ms, a thread at priority 97 computes for 2 ms on CPU,
 * above the loop of punctual (95):
 *
 *     lock     disk and network: the holder of a lock with priority inheritance, which holds it only
 *              while data is written, gets priority 97 if packets make the thread want the lock
 *     reaper   forks and disk: cleans up after processes, and only while data is written back
 *     pool     page faults and network: refills a pool that faults have emptied, for packets
 *     copy     page faults and forks: copies pages for new processes, and only if many are touched
 *     dirty    page faults and disk: throttled like a writer of dirty pages
 *     starved  network and forks: a queue that only packets fill, and only forks keep from being emptied
 *
 * The resources are counters of the kernel, as stand-ins for such code. The lock of `lock` is real. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ULL
#define LOOK (20 * MS)
#define LOOKS 5 /* in 100 ms */
typedef unsigned long long ns;

static int cpu;
static pthread_mutex_t lock;
static sem_t go;
static volatile int is_lock, is_written;

static ns now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void rest(ns time) {
    struct timespec t = {time / (1000 * MS), time % (1000 * MS)};
    nanosleep(&t, NULL);
}

static void compute(ns time) {
    for (ns end = now() + time; now() < end;)
        ;
}

/* Binds the thread to the CPU, with a real-time priority if it is not 0. */
static void be(int priority) {
    cpu_set_t set;
    struct sched_param param = {.sched_priority = priority};
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) ||
        (priority && sched_setscheduler(0, SCHED_FIFO, &param))) {
        perror("traps: CPU or priority");
        exit(1);
    }
}

/* The number after a word in a file of /proc. */
static ns counter(const char *path, const char *word) {
    char line[512];
    ns number = 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        char *found = strstr(line, word);
        if (found && (found == line || found[-1] == ' ')) {
            number = strtoull(found + strlen(word), NULL, 10);
            break;
        }
    }
    fclose(file);
    return number;
}

static ns packets(void) {
    char line[512];
    ns bytes, number = 0;
    FILE *file = fopen("/proc/self/net/dev", "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, " lo: %llu %llu", &bytes, &number) == 2) break;
    fclose(file);
    return number;
}
static ns written(void) { return counter("/proc/vmstat", "pgpgout "); } /* KiB */
static ns faults(void) { return counter("/proc/vmstat", "pgfault "); }
static ns forks(void) { return counter("/proc/stat", "processes "); }

/* A resource: a counter, and how much of it in 100 ms is busy. */
struct resource {
    ns (*count)(void);
    ns busy;
};
/* The farm load, with 1 Mbit/s and 1 MB/s, is below these. */
static const struct resource NETWORK = {packets, 250}, DISK = {written, 500}, FORKS = {forks, 10},
                             FAULTS = {faults, 1000}, COPIES = {faults, 30000};
static const struct trap {
    const char *name;
    struct resource needs[2];
} TRAPS[] = {
    {"lock", {NETWORK, DISK}},    {"reaper", {FORKS, DISK}}, {"pool", {FAULTS, NETWORK}},
    {"copy", {COPIES, FORKS}},    {"dirty", {FAULTS, DISK}}, {"starved", {NETWORK, FORKS}},
};

/* Holds the lock while data is written. */
static void *holder(void *nothing) {
    be(0);
    for (;;) {
        if (is_written) {
            pthread_mutex_lock(&lock);
            /* Without the lock's inheritance, this runs at an ordinary priority. */
            compute(4 * MS);
            pthread_mutex_unlock(&lock);
        }
        rest(MS);
    }
    return nothing;
}

static void *urgent(void *nothing) {
    be(97);
    for (;;) {
        sem_wait(&go);
        if (is_lock) {
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
        } else {
            compute(2 * MS);
        }
    }
    return nothing;
}

static void start(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL)) {
        perror("traps: thread");
        exit(1);
    }
}

int main(int count, char **words) {
    const struct trap *trap = NULL;
    for (size_t i = 0; count == 3 && i < sizeof TRAPS / sizeof *TRAPS; i++)
        if (!strcmp(words[2], TRAPS[i].name)) trap = &TRAPS[i];
    if (!trap) {
        fprintf(stderr, "usage: traps CPU lock|reaper|pool|copy|dirty|starved\n");
        return 2;
    }
    cpu = atoi(words[1]);
    is_lock = !strcmp(trap->name, "lock");
    pthread_mutexattr_t inherits;
    pthread_mutexattr_init(&inherits);
    pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&lock, &inherits);
    sem_init(&go, 0, 0);
    start(urgent);
    if (is_lock) start(holder);
    be(90);
    puts("ready");
    fflush(stdout);
    ns before[2][LOOKS] = {{0}};
    for (int turn = 0;; turn++) {
        int all = 1;
        for (int i = 0; i < 2; i++) {
            const struct resource *one = &trap->needs[i];
            ns number = one->count(), *oldest = &before[i][turn % LOOKS];
            int is_busy = turn >= LOOKS && number - *oldest >= one->busy;
            *oldest = number;
            if (one->count == written) is_written = is_busy;
            all &= is_busy;
        }
        if (all) sem_post(&go);
        rest(LOOK);
    }
}
