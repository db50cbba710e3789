// A periodic loop whose jobs a setting makes slower. applications.py runs it in an experiment.
//
// loop [fresh] [disturbed]: `fresh` maps and touches new memory in each eighth job, in place of used
// memory. `disturbed` runs a thread of higher priority on the same CPU 20 times a second for 3 ms.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

static void disturb() {
    prctl(PR_SET_NAME, "disturber");
    sched_param priority{50};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) std::exit(3);
    std::mt19937 random{std::random_device{}()};
    std::exponential_distribution<> gap{20.0};
    for (;;) {
        std::this_thread::sleep_for(std::chrono::duration<double>(gap(random)));
        for (auto end = Clock::now() + 3ms; Clock::now() < end;) {}
    }
}

int main(int count, char **arguments) {
    bool fresh = false, disturbed = false;
    for (int n = 1; n < count; n++) {
        fresh |= std::string_view(arguments[n]) == "fresh";
        disturbed |= std::string_view(arguments[n]) == "disturbed";
    }
    constexpr size_t size = 16 << 20;
    char *used = nullptr;
    prctl(PR_SET_NAME, "punctual-loop");
    // A separate process, because only the jobs of the loop are judged.
    if (disturbed && fork() == 0) disturb();
    auto at = Clock::now();
    for (unsigned turn = 0;; turn++) {
        at += 2ms;
        std::this_thread::sleep_until(at);
        for (auto end = Clock::now() + 50us; Clock::now() < end;) {}
        if (turn % 8) continue;
        if (!used || fresh) {
            if (used) munmap(used, size);
            used = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            madvise(used, size, MADV_NOHUGEPAGE);
        }
        for (size_t i = 0; i < size; i += 4096) used[i] = char(turn);
        if (at < Clock::now()) at = Clock::now();
    }
}
