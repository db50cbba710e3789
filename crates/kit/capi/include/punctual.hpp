// C++17 wrapper for punctual.h: objects that release their resources when they are destroyed, and
// exceptions instead of error numbers. punctual.h documents each call.
#ifndef PUNCTUAL_HPP
#define PUNCTUAL_HPP

#include "punctual.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace punctual {

using nanoseconds = std::chrono::nanoseconds;

// A failed call: code() is the errno, and what() names the cause, such as a missing privilege.
class error : public std::system_error {
public:
  explicit error(int number)
      : std::system_error(number, std::generic_category(), punctual_last_error()) {}
};

// Returns the result of a call, or throws an error if the call failed.
inline int check(int result) {
  if (result < 0)
    throw error(-result);
  return result;
}

// An owned handle, which the destructor drops.
template <typename Object, void (*Drop)(Object *)> class owned {
public:
  owned() = default;
  owned(owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  owned &operator=(owned &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  owned(const owned &) = delete;
  owned &operator=(const owned &) = delete;
  ~owned() { Drop(handle_); }
  Object *get() const noexcept { return handle_; }
  Object **out() noexcept { return &handle_; }

private:
  Object *handle_ = nullptr;
};

inline nanoseconds now() { return nanoseconds(punctual_now_ns()); }
inline void lock_memory() { check(punctual_lock_memory()); }
inline void prefault_stack(std::size_t bytes) { check(punctual_prefault_stack(bytes)); }

// Sets the calling thread to SCHED_FIFO or SCHED_RR with a priority.
inline void set_policy(int policy, int priority) {
  punctual_policy_t wanted{};
  wanted.size = sizeof wanted;
  wanted.policy = policy;
  wanted.priority = priority;
  check(punctual_set_policy(&wanted));
}

class periodic {
public:
  explicit periodic(nanoseconds period, std::uint32_t overrun = PUNCTUAL_OVERRUN_SKIP,
                    std::uint32_t catch_up = 0) {
    punctual_periodic_spec_t spec{};
    spec.size = sizeof spec;
    spec.period_ns = period.count();
    spec.overrun = overrun;
    spec.catch_up = catch_up;
    check(punctual_periodic_new(nullptr, &spec, handle_.out()));
  }
  // Waits for the next job. Returns nothing if a signal handler interrupted the wait.
  std::optional<punctual_job_t> wait() {
    punctual_job_t job{};
    job.size = sizeof job;
    if (check(punctual_periodic_wait(handle_.get(), &job)) == 0)
      return std::nullopt;
    return job;
  }
  punctual_account_t account() const {
    punctual_account_t account{};
    account.size = sizeof account;
    check(punctual_periodic_account(handle_.get(), &account));
    return account;
  }
  // Follows an external phase. Returns the observed phase error.
  nanoseconds follow(nanoseconds edge, nanoseconds step) {
    std::int64_t seen = 0;
    check(punctual_periodic_follow(handle_.get(), edge.count(), step.count(), &seen));
    return nanoseconds(seen);
  }

private:
  owned<punctual_periodic, punctual_periodic_drop> handle_;
};

class channel {
public:
  void record(std::int64_t at_ns, std::int64_t ns) {
    check(punctual_channel_record(handle_.get(), at_ns, ns));
  }
  void account(const punctual_account_t &account) {
    check(punctual_channel_account(handle_.get(), &account));
  }

private:
  friend class figures;
  owned<punctual_channel, punctual_channel_drop> handle_;
};

class figures {
public:
  figures(const std::string &name, std::size_t channels) {
    check(punctual_figures_new(nullptr, name.c_str(), channels, handle_.out()));
  }
  // Creates a channel for the calling thread.
  class channel channel(const std::string &name, std::uint32_t kind,
                  nanoseconds period = nanoseconds(0), nanoseconds budget = nanoseconds(0)) {
    punctual_channel_spec_t spec{};
    spec.size = sizeof spec;
    spec.name = name.c_str();
    spec.kind = kind;
    spec.period_ns = period.count();
    spec.budget_ns = budget.count();
    class channel made;
    check(punctual_channel_new(nullptr, handle_.get(), &spec, made.handle_.out()));
    return made;
  }

private:
  owned<punctual_figures, punctual_figures_drop> handle_;
};

// A lock and its condition. It can be used with std::unique_lock<punctual::monitor>.
class monitor {
public:
  monitor() { check(punctual_monitor_new(nullptr, handle_.out())); }
  void lock() { check(punctual_monitor_lock(handle_.get())); }
  void unlock() { check(punctual_monitor_unlock(handle_.get())); }
  // Call this function and those below while holding the lock.
  template <typename Ready> void wait(Ready ready) {
    while (!ready())
      check(punctual_monitor_wait(handle_.get()));
  }
  // Returns whether `ready` became true before the deadline.
  template <typename Ready> bool wait_until(nanoseconds deadline, Ready ready) {
    while (!ready())
      if (check(punctual_monitor_wait_until(handle_.get(), deadline.count())) == 1)
        return ready();
    return true;
  }
  void notify_one() { check(punctual_monitor_notify_one(handle_.get())); }
  void notify_all() { check(punctual_monitor_notify_all(handle_.get())); }

private:
  owned<punctual_monitor, punctual_monitor_drop> handle_;
};

// Sets the calling thread to SCHED_DEADLINE until the object is destroyed.
class deadline {
public:
  deadline(nanoseconds runtime, nanoseconds deadline, nanoseconds period) {
    check(punctual_deadline_new(nullptr, runtime.count(), deadline.count(), period.count(),
                                handle_.out()));
  }
  void end_job() { check(punctual_deadline_end_job(handle_.get())); }
  std::uint64_t overruns() const {
    std::uint64_t overruns = 0;
    check(punctual_deadline_overruns(handle_.get(), &overruns));
    return overruns;
  }

private:
  owned<punctual_deadline, punctual_deadline_drop> handle_;
};

// Counts violations in regions of the calling thread.
template <typename Object, int (*New)(Object **), void (*Drop)(Object *), int (*Enter)(Object *),
          int (*Leave)(Object *), int (*Violations)(Object *, punctual_violations_t *)>
class guard {
public:
  guard() { check(New(handle_.out())); }
  template <typename Work> void region(Work work) {
    struct leave {
      Object *guard;
      ~leave() { Leave(guard); }
    } leave{handle_.get()};
    check(Enter(handle_.get()));
    work();
  }
  punctual_violations_t violations() const {
    punctual_violations_t seen{};
    seen.size = sizeof seen;
    check(Violations(handle_.get(), &seen));
    return seen;
  }

private:
  owned<Object, Drop> handle_;
};

namespace detail {
template <typename Storage, typename Object, int (*New)(Storage *, Object **)>
inline int on_heap(Object **handle) {
  return New(nullptr, handle);
}
} // namespace detail

// Counts system calls.
using system_call_guard =
    guard<punctual_system_call_guard,
          detail::on_heap<punctual_system_call_guard_t, punctual_system_call_guard,
                          punctual_system_call_guard_new>,
          punctual_system_call_guard_drop, punctual_system_call_guard_enter,
          punctual_system_call_guard_leave, punctual_system_call_guard_violations>;

// Counts page faults.
using page_fault_guard =
    guard<punctual_page_fault_guard,
          detail::on_heap<punctual_page_fault_guard_t, punctual_page_fault_guard,
                          punctual_page_fault_guard_new>,
          punctual_page_fault_guard_drop, punctual_page_fault_guard_enter,
          punctual_page_fault_guard_leave, punctual_page_fault_guard_violations>;

// Counts allocations, if punctual_malloc.c is compiled into the program.
using allocation_guard =
    guard<punctual_allocation_guard,
          detail::on_heap<punctual_allocation_guard_t, punctual_allocation_guard,
                          punctual_allocation_guard_new>,
          punctual_allocation_guard_drop, punctual_allocation_guard_enter,
          punctual_allocation_guard_leave, punctual_allocation_guard_violations>;

// Holds back the segments of a TCP socket until the object is destroyed.
class tcp_cork {
public:
  explicit tcp_cork(int fd) : fd_(fd) { check(punctual_tcp_cork(fd)); }
  tcp_cork(const tcp_cork &) = delete;
  tcp_cork &operator=(const tcp_cork &) = delete;
  ~tcp_cork() { punctual_tcp_uncork(fd_); }

private:
  int fd_;
};

inline void tcp_send_at_once(int fd) { check(punctual_tcp_send_at_once(fd)); }

} // namespace punctual

#endif // PUNCTUAL_HPP
