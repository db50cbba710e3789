/* A thread whose jobs wait for an answer of another thread, in functions with known names. On x86
 * the wait is called by code that was made at run time, as by a just-in-time compiler. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int orders[2], answers[2];

static void rest(long ms) {
    struct timespec t = { 0, ms * 1000000 };
    nanosleep(&t, NULL);
}

__attribute__((noinline, optimize("no-omit-frame-pointer")))
static int victim_awaits_answer(void) {
    char byte;
    return read(answers[0], &byte, 1) == 1 ? byte : -1;
}

__attribute__((noinline)) static int waker_answers(void) {
    char byte = 1;
    return write(answers[1], &byte, 1) == 1 ? byte : -1;
}

static void *waker(void *none) {
    char byte;
    prctl(PR_SET_NAME, "waker");
    while (read(orders[0], &byte, 1) == 1) {
        rest(4);
        if (waker_answers() != 1) exit(1);
    }
    return none;
}

typedef int (*caller)(int (*)(void));

#ifdef __x86_64__
static caller compiled(void) {
    /* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
    static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    FILE *map;
    if (at == MAP_FAILED) exit(2);
    memcpy(at, code, sizeof code);
    if (mprotect(at, 4096, PROT_READ | PROT_EXEC)) exit(3);
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    if (!(map = fopen(name, "w"))) exit(4);
    fprintf(map, "%lx %zx compiled_step\n", (unsigned long)at, sizeof code);
    fclose(map);
    return (caller)at;
}
#else
static int direct(int (*call)(void)) { return call() + 0; }
static caller compiled(void) { return direct; }
#endif

int main(void) {
    pthread_t thread;
    char byte = 0;
    caller step = compiled();
    prctl(PR_SET_NAME, "victim");
    if (pipe(orders) || pipe(answers) || pthread_create(&thread, NULL, waker, NULL)) return 5;
    for (;;) {
        rest(20);
        if (write(orders[1], &byte, 1) != 1 || step(victim_awaits_answer) != 1) return 6;
    }
}
