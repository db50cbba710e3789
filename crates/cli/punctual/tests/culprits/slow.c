/* Periodic jobs, of which every tenth is slow in a function with a known name: it burns CPU time, or
 * waits for a lock that another thread holds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int wanted;
static volatile unsigned long sink;

__attribute__((always_inline)) static inline long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

__attribute__((always_inline)) static inline void burn_us(long us) {
    long end = now_us() + us;
    while (now_us() < end)
        for (int i = 0; i < 200; i++) sink += i;
}

static void rest_us(long us) {
    struct timespec t = { 0, us * 1000 };
    nanosleep(&t, NULL);
}

__attribute__((noinline)) static void usual_work(void) {
    burn_us(600);
    sink++;
}

__attribute__((noinline)) static void planted_burn(void) {
    burn_us(6000);
    sink++;
}

__attribute__((noinline)) static void planted_wait(void) {
    wanted = 1;
    while (wanted) ; /* until the other thread has the lock */
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    sink++;
}

__attribute__((noinline, noclone)) static void serve(int waits) {
    if (waits) planted_wait();
    else planted_burn();
    sink++;
}

__attribute__((noinline, noclone)) static void handle(int waits) {
    serve(waits);
    sink++;
}

static void *holder(void *none) {
    prctl(PR_SET_NAME, "holder");
    for (;;) {
        while (!wanted) rest_us(100);
        pthread_mutex_lock(&lock);
        wanted = 0;
        rest_us(8000);
        pthread_mutex_unlock(&lock);
    }
    return none;
}

int main(int count, char **words) {
    int waits = count > 1 && !strcmp(words[1], "wait");
    pthread_t other;
    if (waits && pthread_create(&other, NULL, holder, NULL)) return 1;
    for (int job = 1;; job++) {
        struct timespec period = { 0, 4000000 };
        clock_nanosleep(CLOCK_MONOTONIC, 0, &period, NULL);
        usual_work();
        if (job % 10) continue;
        handle(waits);
    }
}
