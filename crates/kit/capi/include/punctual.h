// The C interface of punctual's kit. Made by cbindgen: changes belong in crates/kit/capi/src.

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// The version of this interface. Programs compare it with punctual_abi_version() at startup, to
// detect a library that was built for a different header.
#define PUNCTUAL_ABI_VERSION 1

// How to handle releases that passed while the previous job was still running.
typedef enum {
  // Skips them; the next job runs at the next release.
  PUNCTUAL_OVERRUN_SKIP = 0,
  // Runs up to `catch_up` of them immediately and skips older ones.
  PUNCTUAL_OVERRUN_CATCH_UP = 1,
  // Runs one immediately and counts periods from that moment.
  PUNCTUAL_OVERRUN_REPHASE = 2,
} punctual_overrun;

// The kind of a channel's samples.
typedef enum {
  // From the release of a job to its start.
  PUNCTUAL_KIND_LATENCY = 0,
  // From the release of a job to its completion.
  PUNCTUAL_KIND_RESPONSE = 1,
  // From the start of a job to its completion.
  PUNCTUAL_KIND_EXECUTION = 2,
  // Another duration.
  PUNCTUAL_KIND_OTHER = 3,
} punctual_kind;

// Opaque type behind a handle.
typedef struct punctual_allocation_guard punctual_allocation_guard;

// Opaque type behind a handle.
typedef struct punctual_channel punctual_channel;

// Opaque type behind a handle.
typedef struct punctual_deadline punctual_deadline;

// Opaque type behind a handle.
typedef struct punctual_figures punctual_figures;

// Opaque type behind a handle.
typedef struct punctual_monitor punctual_monitor;

// Opaque type behind a handle.
typedef struct punctual_page_fault_guard punctual_page_fault_guard;

// Opaque type behind a handle.
typedef struct punctual_periodic punctual_periodic;

// Opaque type behind a handle.
typedef struct punctual_system_call_guard punctual_system_call_guard;

// A thread's calls of malloc and related functions. `punctual_malloc.c` writes them.
typedef struct {
  // 1 inside a region, otherwise 0.
  uint8_t in_region;
  // Number of calls inside regions.
  uint64_t count;
  // The return address of the first of these calls.
  uint64_t first_address;
} punctual_allocation_state_t;

// Function that returns the state of the calling thread.
typedef punctual_allocation_state_t *(*punctual_allocation_state_of)(void);

// Owning handle of an allocation guard. Drop it exactly once.
typedef punctual_allocation_guard *punctual_allocation_guard_h;

// Caller-provided storage for an allocation guard. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[4];
} punctual_allocation_guard_t;

// Borrowed handle of an allocation guard.
typedef punctual_allocation_guard *punctual_allocation_guard_h_ref;

// The violations that a guard has seen in its regions.
typedef struct {
  // Set to sizeof this structure.
  size_t size;
  // Number of violations.
  uint64_t count;
  // Number of regions that were watched only in part (because of fork, exec, exit or the signal
  // mask).
  uint64_t cut_short;
  // Number of the first system call; 0 for a page fault.
  uint64_t first_number;
  // Return address of the first system call or allocation, or address of the first page fault.
  uint64_t first_address;
} punctual_violations_t;

// Owning handle of the deadline policy of a thread. Drop it exactly once.
typedef punctual_deadline *punctual_deadline_h;

// Caller-provided storage for the deadline policy of a thread. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[12];
} punctual_deadline_t;

// Borrowed handle of the deadline policy of a thread.
typedef punctual_deadline *punctual_deadline_h_ref;

// Owning handle of the figures of an application. Drop it exactly once.
typedef punctual_figures *punctual_figures_h;

// Owning handle of a channel. Drop it exactly once.
typedef punctual_channel *punctual_channel_h;

// Caller-provided storage for the figures of an application. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[4];
} punctual_figures_t;

// Caller-provided storage for a channel. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[16];
} punctual_channel_t;

// Borrowed handle of the figures of an application.
typedef punctual_figures *punctual_figures_h_ref;

// The settings of a channel.
typedef struct {
  // Set to sizeof this structure.
  size_t size;
  // Name in UTF-8, truncated to 32 bytes.
  const char *name;
  // Period; 0 if there is none.
  int64_t period_ns;
  // Samples above this value are stored with their time. If it is 0, only the largest sample of
  // each second is stored.
  int64_t budget_ns;
  // A value of `punctual_kind`.
  uint32_t kind;
  // Must be 0.
  uint32_t reserved;
} punctual_channel_spec_t;

// Borrowed handle of a channel.
typedef punctual_channel *punctual_channel_h_ref;

// Counts of a loop's periods: due = run + missed.
typedef struct {
  // Set to sizeof this structure.
  size_t size;
  // Periods that came due.
  uint64_t due;
  // Periods whose job ran.
  uint64_t run;
  // Periods in which no job ran.
  uint64_t missed;
  // Jobs that ran, but started after an overrun or when the next job was already due.
  uint64_t late;
} punctual_account_t;

// Owning handle of a system call guard. Drop it exactly once.
typedef punctual_system_call_guard *punctual_system_call_guard_h;

// Owning handle of a page fault guard. Drop it exactly once.
typedef punctual_page_fault_guard *punctual_page_fault_guard_h;

// Caller-provided storage for a system call guard. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[4];
} punctual_system_call_guard_t;

// Borrowed handle of a system call guard.
typedef punctual_system_call_guard *punctual_system_call_guard_h_ref;

// Caller-provided storage for a page fault guard. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[4];
} punctual_page_fault_guard_t;

// Borrowed handle of a page fault guard.
typedef punctual_page_fault_guard *punctual_page_fault_guard_h_ref;

// Owning handle of a monitor. Drop it exactly once.
typedef punctual_monitor *punctual_monitor_h;

// Caller-provided storage for a monitor (a mutex with a condition variable). Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[4];
} punctual_monitor_t;

// Borrowed handle of a monitor.
typedef punctual_monitor *punctual_monitor_h_ref;

// Owning handle of a periodic loop. Drop it exactly once.
typedef punctual_periodic *punctual_periodic_h;

// Caller-provided storage for a periodic loop. Its contents are private.
typedef struct {
  // Private to the library.
  uint64_t reserved[24];
} punctual_periodic_t;

// The settings of a loop.
typedef struct {
  // Set to sizeof this structure.
  size_t size;
  // Period; must be above 0.
  int64_t period_ns;
  // First release on CLOCK_MONOTONIC; 0 for a release one period from now.
  int64_t first_release_ns;
  // A value of `punctual_overrun`.
  uint32_t overrun;
  // Maximum number of missed jobs to run, for PUNCTUAL_OVERRUN_CATCH_UP.
  uint32_t catch_up;
} punctual_periodic_spec_t;

// Borrowed handle of a periodic loop.
typedef punctual_periodic *punctual_periodic_h_ref;

// A job that is due.
typedef struct {
  // Set to sizeof this structure.
  size_t size;
  // Time when the job was due.
  int64_t release_ns;
  // Time when the thread was awake to run the job.
  int64_t start_ns;
  // Periods missed between the previous job and this one.
  uint64_t missed;
} punctual_job_t;

// A scheduling policy.
typedef struct {
  // Set to sizeof this structure.
  size_t size;
  // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO or SCHED_RR from sched.h.
  int32_t policy;
  // 1 to 99 for SCHED_FIFO and SCHED_RR.
  int32_t priority;
  // -20 to 19 for SCHED_OTHER and SCHED_BATCH.
  int32_t nice;
  // Must be 0.
  int32_t reserved;
} punctual_policy_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the interface version of the library, which is PUNCTUAL_ABI_VERSION in its header.
uint32_t punctual_abi_version(void);

// Registers the function that returns a thread's state. `punctual_malloc.c` calls this before
// `main`; later calls have no effect.
void punctual_allocation_install(punctual_allocation_state_of state_of);

// Drops an allocation guard; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that was made in this thread, has not been dropped, and is no
// longer in use.
void punctual_allocation_guard_drop(punctual_allocation_guard_h handle);

// Creates a guard that counts the calling thread's calls of malloc, calloc, realloc, free,
// aligned_alloc and posix_memalign inside regions. The program continues after a violation. A
// thread can have only one such guard at a time. Errors: EOPNOTSUPP if `punctual_malloc.c` is not
// compiled into the program.
//
// # Safety
// `storage` is NULL or points to a punctual_allocation_guard_t, and `handle` points to writable
// memory.
int punctual_allocation_guard_new(punctual_allocation_guard_t *storage,
                                  punctual_allocation_guard_h *handle);

// Enters a region. Costs a one-byte store.
//
// # Safety
// `handle` is a guard that the calling thread made.
int punctual_allocation_guard_enter(punctual_allocation_guard_h_ref handle);

// Leaves a region.
//
// # Safety
// `handle` is a guard that the calling thread made.
int punctual_allocation_guard_leave(punctual_allocation_guard_h_ref handle);

// Writes the violations seen so far. `first_address` is the return address of the first call.
//
// # Safety
// `handle` is a guard that the calling thread made, and `violations` points to a structure that
// begins with its size.
int punctual_allocation_guard_violations(punctual_allocation_guard_h_ref handle,
                                         punctual_violations_t *violations);

// Drops the deadline policy of a thread; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_deadline_drop(punctual_deadline_h handle);

// Gives the calling thread the policy SCHED_DEADLINE. The thread gets a signal (SIGXCPU) each time
// it exhausts its runtime. Dropping the handle restores the previous policy. Errors: EPERM; EBUSY
// if no bandwidth is left or the signal is already in use; EINVAL.
//
// # Safety
// `storage` is NULL or points to a punctual_deadline_t, and `handle` points to writable memory.
int punctual_deadline_new(punctual_deadline_t *storage,
                          int64_t runtime_ns,
                          int64_t deadline_ns,
                          int64_t period_ns,
                          punctual_deadline_h *handle);

// Gives up the rest of the runtime until the next period begins.
//
// # Safety
// `handle` was made in the calling thread.
int punctual_deadline_end_job(punctual_deadline_h_ref handle);

// Writes how often the thread has exhausted its runtime.
//
// # Safety
// `handle` was made in the calling thread, and `overruns` points to writable memory.
int punctual_deadline_overruns(punctual_deadline_h_ref handle, uint64_t *overruns);

// Returns the message of the last call that failed in this thread. It stays valid until the next
// failure. If a permission is missing, the message names the permission and how to get it. The
// result is never NULL.
const char *punctual_last_error(void);

// Drops the figures of an application; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_figures_drop(punctual_figures_h handle);

// Drops a channel; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_channel_drop(punctual_channel_h handle);

// Creates the figures of this application in sealed memory, with `channels` channels (1 to 64).
// Errors: EINVAL; EOPNOTSUPP before Linux 5.1; the errors of memfd_create(2).
//
// # Safety
// `storage` is NULL or points to a punctual_figures_t, `name` ends in a zero byte, and `handle`
// points to writable memory.
int punctual_figures_new(punctual_figures_t *storage,
                         const char *name,
                         size_t channels,
                         punctual_figures_h *handle);

// Creates a channel for the measurements of the calling thread. The channel may outlive the handle
// of its figures. Errors: EINVAL; ENOSPC if all channels are in use.
//
// # Safety
// `storage` is NULL or points to a punctual_channel_t, `spec` points to a structure that begins
// with its size, and `handle` points to writable memory.
int punctual_channel_new(punctual_channel_t *storage,
                         punctual_figures_h_ref figures,
                         const punctual_channel_spec_t *spec,
                         punctual_channel_h *handle);

// Adds a sample for the job that was released at `at_ns`. Makes no system call.
//
// # Safety
// No other thread uses the channel `handle`.
int punctual_channel_record(punctual_channel_h_ref handle, int64_t at_ns, int64_t ns);

// Sets the counts of periods so far, from punctual_periodic_account().
//
// # Safety
// The same as for punctual_channel_record(). In addition, `account` points to a structure that
// begins with its size.
int punctual_channel_account(punctual_channel_h_ref handle, const punctual_account_t *account);

// Drops a system call guard; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_system_call_guard_drop(punctual_system_call_guard_h handle);

// Drops a page fault guard; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_page_fault_guard_drop(punctual_page_fault_guard_h handle);

// Creates a guard that counts the calling thread's system calls inside regions. The program
// continues after a violation. Errors: EOPNOTSUPP before Linux 5.11 and on architectures other
// than x86-64; EBUSY if another part of the program handles SIGSYS.
//
// # Safety
// `storage` is NULL or points to a punctual_system_call_guard_t, and `handle` points to writable
// memory.
int punctual_system_call_guard_new(punctual_system_call_guard_t *storage,
                                   punctual_system_call_guard_h *handle);

// Enters a region. Costs a one-byte store.
//
// # Safety
// `handle` is a guard that the calling thread made.
int punctual_system_call_guard_enter(punctual_system_call_guard_h_ref handle);

// Leaves a region.
//
// # Safety
// `handle` is a guard that the calling thread made.
int punctual_system_call_guard_leave(punctual_system_call_guard_h_ref handle);

// Writes the violations seen so far.
//
// # Safety
// `handle` is a guard that the calling thread made, and `violations` points to a structure that
// begins with its size.
int punctual_system_call_guard_violations(punctual_system_call_guard_h_ref handle,
                                          punctual_violations_t *violations);

// Creates a guard that counts the calling thread's page faults inside regions. The program
// continues after a violation. Errors: EOPNOTSUPP before Linux 5.13; EBUSY if another part of the
// program handles SIGTRAP.
//
// # Safety
// `storage` is NULL or points to a punctual_page_fault_guard_t, and `handle` points to writable
// memory.
int punctual_page_fault_guard_new(punctual_page_fault_guard_t *storage,
                                  punctual_page_fault_guard_h *handle);

// Enters a region. Costs a one-byte store.
//
// # Safety
// `handle` is a guard that the calling thread made.
int punctual_page_fault_guard_enter(punctual_page_fault_guard_h_ref handle);

// Leaves a region.
//
// # Safety
// `handle` is a guard that the calling thread made.
int punctual_page_fault_guard_leave(punctual_page_fault_guard_h_ref handle);

// Writes the violations seen so far.
//
// # Safety
// `handle` is a guard that the calling thread made, and `violations` points to a structure that
// begins with its size.
int punctual_page_fault_guard_violations(punctual_page_fault_guard_h_ref handle,
                                         punctual_violations_t *violations);

// Drops a monitor; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_monitor_drop(punctual_monitor_h handle);

// Creates an unlocked monitor for the threads of this process. The monitor must not be moved.
// Errors: ENOSYS if the kernel has no priority inheritance.
//
// # Safety
// `storage` is NULL or points to a punctual_monitor_t, and `handle` points to writable memory.
int punctual_monitor_new(punctual_monitor_t *storage, punctual_monitor_h *handle);

// Waits until the lock is free and takes it. Errors: EDEADLK if this thread already holds it.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_lock(punctual_monitor_h_ref handle);

// Releases the lock. Errors: EPERM if this thread does not hold it.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_unlock(punctual_monitor_h_ref handle);

// Releases the lock, waits for a notification, and takes the lock again. Wake-ups can be spurious,
// so check the condition again. Errors: EPERM if this thread does not hold the lock.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_wait(punctual_monitor_h_ref handle);

// Like punctual_monitor_wait(), but waits until `deadline_ns` at the latest. Returns 1 if the
// deadline has passed, otherwise 0.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_wait_until(punctual_monitor_h_ref handle, int64_t deadline_ns);

// Wakes the waiter with the highest priority. Errors: EPERM if this thread does not hold the lock.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_notify_one(punctual_monitor_h_ref handle);

// Wakes all waiters one after the other, in order of priority. Errors: EPERM if this thread does
// not hold the lock.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_notify_all(punctual_monitor_h_ref handle);

// Drops a periodic loop; NULL is ignored. The caller may then reuse the storage.
//
// # Safety
// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
void punctual_periodic_drop(punctual_periodic_h handle);

// Creates a loop for the thread that calls punctual_periodic_wait(). This function waits with
// clock_nanosleep(2) on CLOCK_MONOTONIC. Errors: EINVAL.
//
// # Safety
// `storage` is NULL or points to a punctual_periodic_t, `spec` points to a structure that begins
// with its size, and `handle` points to writable memory.
int punctual_periodic_new(punctual_periodic_t *storage,
                          const punctual_periodic_spec_t *spec,
                          punctual_periodic_h *handle);

// Waits for the next job. Returns 1 and the job, or 0 if a signal handler ran first. In the latter
// case, wait again or stop.
//
// # Safety
// No other thread uses the loop `handle`, and `job` points to a structure that begins with its
// size.
int punctual_periodic_wait(punctual_periodic_h_ref handle,
                           punctual_job_t *job);

// Writes the counts of the periods so far.
//
// # Safety
// The same as for punctual_periodic_wait().
int punctual_periodic_account(punctual_periodic_h_ref handle, punctual_account_t *account);

// Follows an external phase by moving releases towards `edge_ns + n * period` by at most
// `step_ns`. Writes the observed phase error to `error_ns`, unless that is NULL.
//
// # Safety
// No other thread uses the loop `handle`, and `error_ns` is NULL or points to writable memory.
int punctual_periodic_follow(punctual_periodic_h_ref handle,
                             int64_t edge_ns,
                             int64_t step_ns,
                             int64_t *error_ns);

// Makes the socket send written data immediately (TCP_NODELAY).
//
// # Safety
// The descriptor stays open during the call.
int punctual_tcp_send_at_once(int fd);

// Holds segments back until punctual_tcp_uncork(), so that the pieces of a message are sent as
// one. Errors: EOPNOTSUPP if the socket does not otherwise send data immediately.
//
// # Safety
// The same as for punctual_tcp_send_at_once().
int punctual_tcp_cork(int fd);

// Sends the data that was held back.
//
// # Safety
// The same as for punctual_tcp_send_at_once().
int punctual_tcp_uncork(int fd);

// Sets the policy of the calling thread. Errors: EPERM, with a message that names the limit and
// how to raise it; EINVAL. For SCHED_DEADLINE, use punctual_deadline_new().
//
// A thread with a real-time policy drops to SCHED_OTHER before it ends. The threads and processes
// that it starts do not inherit the policy, so each of them has to set its own.
//
// # Safety
// `policy` points to a structure that begins with its size.
int punctual_set_policy(const punctual_policy_t *policy);

// Returns the highest real-time priority that this process may set; 0 if it may set none.
int punctual_max_priority(void);

// Binds the calling thread to `count` CPUs. Errors: EINVAL for a CPU that does not exist, is
// offline, or is outside the cpuset.
//
// # Safety
// `cpus` points to `count` numbers.
int punctual_set_affinity(const uint32_t *cpus, size_t count);

// Keeps all current and future memory of this process in RAM until the process ends, each page
// from its first access on. Errors: ENOMEM or EPERM, with the limit in the message.
int punctual_lock_memory(void);

// Touches `bytes` bytes of the calling thread's stack. Errors: EINVAL if the stack is smaller.
int punctual_prefault_stack(size_t bytes);

// Returns CLOCK_MONOTONIC in nanoseconds. With the common clock sources, this makes no system
// call.
int64_t punctual_now_ns(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PUNCTUAL_H */
