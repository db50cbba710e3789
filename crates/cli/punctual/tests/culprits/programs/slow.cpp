// The same as `slow.c`, in C++: each job goes through a virtual function, a template of the standard
// library and a function that can throw.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>
#include <vector>

static std::mutex lock;
static volatile bool wanted;
static volatile unsigned long sink;

static long now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void rest_us(long us) {
  timespec t = {0, us * 1000};
  nanosleep(&t, nullptr);
}

static inline void burn_us(long us) {
  long end = now_us() + us;
  while (now_us() < end)
    for (int i = 0; i < 200; i++) sink = sink + i;
}

__attribute__((noipa)) static void usual_work() {
  burn_us(600);
  sink = sink + 1;
}

__attribute__((noipa)) static void planted_burn() {
  burn_us(6000);
  sink = sink + 1;
}

__attribute__((noipa)) static void planted_wait() {
  wanted = true;
  while (wanted) {
  }
  lock.lock();
  lock.unlock();
  sink = sink + 1;
}

struct Request {
  virtual ~Request() = default;
  virtual void serve(const std::function<void()> &work) = 0;
};

struct Checked final : Request {
  __attribute__((noipa)) void serve(const std::function<void()> &work) override {
    std::vector<int> once = {1};
    std::for_each(once.begin(), once.end(), [&](int) { work(); });
    if (once.size() != 1) throw std::runtime_error("no work");
    sink = sink + 1;
  }
};

__attribute__((noipa)) static void handle(Request &request, void (*work)()) {
  try {
    request.serve(work);
  } catch (const std::exception &) {
    sink = 0;
  }
}

static void hold() {
  prctl(PR_SET_NAME, "holder");
  for (;;) {
    while (!wanted) rest_us(100);
    std::lock_guard<std::mutex> held(lock);
    wanted = false;
    rest_us(8000);
  }
}

int main(int count, char **words) {
  bool waits = count > 1 && !std::strcmp(words[1], "wait");
  std::thread holder;
  if (waits) holder = std::thread(hold);
  std::unique_ptr<Request> request = std::make_unique<Checked>();
  for (int job = 1;; job++) {
    timespec period = {0, 4000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &period, nullptr);
    usual_work();
    if (job % 10) continue;
    handle(*request, waits ? planted_wait : planted_burn);
  }
}
