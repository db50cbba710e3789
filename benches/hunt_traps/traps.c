/* A program that makes the periods of a loop late only while two resources are busy at once.
 *
 * traps CPU FOLDER TRAP: prints `ready` when it waits. A thread at priority 90 on CPU looks each 20 ms at
 * both resources. If both were busy in the last 100 ms, a thread at priority 97 computes for 2 ms on CPU,
 * above the loop of punctual (95):
 *
 *     lock     disk and network: the holder of a lock with priority inheritance, which holds it only
 *              while fdatasync is slow, gets priority 97 if packets make the thread want the lock
 *     reaper   forks and disk: cleans up after processes, and only while data is written back
 *     pool     page faults and network: refills a pool that faults have emptied, for packets
 *     copy     memory bandwidth and forks: its copies take longer, and are repeated for each process
 *     dirty    page faults and disk: throttled like a writer of dirty pages
 *     starved  network and forks: a queue that only packets fill, and only forks keep from being emptied
 *
 * But for `lock` and `copy`, the resources are counters of the kernel, as stand-ins for such code. */
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
#define COPIED (512 << 10)
typedef unsigned long long ns;

static int cpu;
static char *folder;
static pthread_mutex_t lock;
static sem_t go;
static volatile int is_lock, wanted, slow_disk;
static volatile ns usual_sync = 50 * MS;

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

static char *from, *to;
/* Time of the fastest of three copies. */
static ns copying(void) {
    ns best = ~0ULL;
    for (int i = 0; i < 3; i++) {
        ns begun = now();
        memcpy(to, from, COPIED);
        if (now() - begun < best) best = now() - begun;
    }
    return best;
}

/* A resource: a counter, and how much of it in 100 ms is busy. */
struct resource {
    ns (*count)(void);
    ns busy;
};
/* The farm load, with 1 Mbit/s and 1 MB/s, is below these. */
static const struct resource NETWORK = {packets, 250}, DISK = {written, 500}, FORKS = {forks, 10},
                             FAULTS = {faults, 1000}, NONE = {NULL, 0};
static const struct trap {
    const char *name;
    struct resource needs[2];
} TRAPS[] = {
    {"lock", {NETWORK, NONE}},    {"reaper", {FORKS, DISK}}, {"pool", {FAULTS, NETWORK}},
    {"copy", {FORKS, NONE}},      {"dirty", {FAULTS, DISK}}, {"starved", {NETWORK, FORKS}},
};

/* Holds the lock while the disk is slow. */
static void *holder(void *nothing) {
    char path[4096], data[4096] = {0};
    be(0);
    snprintf(path, sizeof path, "%s/traps.data", folder);
    int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        perror(path);
        exit(1);
    }
    unlink(path);
    ns shortest = ~0ULL;
    for (int turn = 0;; turn++) {
        ns begun = now();
        if (pwrite(file, data, sizeof data, 0) < 0 || fdatasync(file)) perror("traps: write");
        ns took = now() - begun;
        if (turn < 20) {
            if (took < shortest) shortest = took;
            usual_sync = shortest;
        } else {
            slow_disk = took > 3 * usual_sync && took > MS;
        }
        if (slow_disk) {
            pthread_mutex_lock(&lock);
            /* Without the lock's inheritance, this runs at an ordinary priority. */
            compute(2 * MS);
            pthread_mutex_unlock(&lock);
        }
        rest(2 * MS);
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
    for (size_t i = 0; count == 4 && i < sizeof TRAPS / sizeof *TRAPS; i++)
        if (!strcmp(words[3], TRAPS[i].name)) trap = &TRAPS[i];
    if (!trap) {
        fprintf(stderr, "usage: traps CPU FOLDER lock|reaper|pool|copy|dirty|starved\n");
        return 2;
    }
    cpu = atoi(words[1]);
    folder = words[2];
    is_lock = !strcmp(trap->name, "lock");
    int is_copy = !strcmp(trap->name, "copy");
    pthread_mutexattr_t inherits;
    pthread_mutexattr_init(&inherits);
    pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&lock, &inherits);
    sem_init(&go, 0, 0);
    from = malloc(COPIED);
    to = malloc(COPIED);
    memset(from, 1, COPIED);
    memset(to, 1, COPIED);
    start(urgent);
    if (is_lock) start(holder);
    be(90);
    ns usual_copy = ~0ULL;
    for (int turn = 0; turn < 50; turn++) {
        ns took = copying();
        if (took < usual_copy) usual_copy = took;
        rest(LOOK);
    }
    puts("ready");
    fflush(stdout);
    ns before[2][LOOKS] = {{0}};
    for (int turn = 0;; turn++) {
        int all = 1;
        for (int i = 0; i < 2; i++) {
            const struct resource *one = &trap->needs[i];
            if (!one->count) continue;
            ns number = one->count(), *oldest = &before[i][turn % LOOKS];
            all &= turn >= LOOKS && number - *oldest >= one->busy;
            *oldest = number;
        }
        if (is_copy) all &= copying() > usual_copy * 3 / 2;
        if (all) sem_post(&go);
        rest(LOOK);
    }
}
