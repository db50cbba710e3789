// The C interface of punctual's kit. Made by cbindgen: changes belong in crates/kit/capi/src.

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// The version of this interface. A program that was compiled against another header
// compares it with this at its start.
#define PUNCTUAL_ABI_VERSION 1

// What becomes of releases that passed while the job before them ran.
typedef enum {
  // They are missed; the next job is run at the next release.
  PUNCTUAL_OVERRUN_SKIP = 0,
  // Up to `catch_up` are run at once; older ones are missed.
  PUNCTUAL_OVERRUN_CATCH_UP = 1,
  // One is run at once, and periods count from that moment on.
  PUNCTUAL_OVERRUN_REPHASE = 2,
} punctual_overrun;

// What the samples of a lane are.
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

// What a handle points to.
typedef struct punctual_allocation_guard punctual_allocation_guard;

// What a handle points to.
typedef struct punctual_deadline punctual_deadline;

// What a handle points to.
typedef struct punctual_figures punctual_figures;

// What a handle points to.
typedef struct punctual_lane punctual_lane;

// What a handle points to.
typedef struct punctual_monitor punctual_monitor;

// What a handle points to.
typedef struct punctual_page_fault_guard punctual_page_fault_guard;

// What a handle points to.
typedef struct punctual_periodic punctual_periodic;

// What a handle points to.
typedef struct punctual_system_call_guard punctual_system_call_guard;

// What a thread asked of malloc; written by `punctual_malloc.c`.
typedef struct {
  // 1 in a region, else 0.
  uint8_t in_region;
  // Calls in regions.
  uint64_t count;
  // The address behind the first of these calls.
  uint64_t first_address;
} punctual_allocation_state_t;

// Returns the state of the calling thread.
typedef punctual_allocation_state_t *(*punctual_allocation_state_of)(void);

// The owner's handle of a guard of allocations, to be dropped once.
typedef punctual_allocation_guard *punctual_allocation_guard_h;

// Storage of the caller's for a guard of allocations; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[4];
} punctual_allocation_guard_t;

// A borrowed handle of a guard of allocations.
typedef punctual_allocation_guard *punctual_allocation_guard_h_ref;

// What a guard has seen in its regions.
typedef struct {
  // sizeof this structure.
  size_t size;
  // How many there were.
  uint64_t count;
  // Regions whose rest was not watched (a fork, exec, exit, signal mask).
  uint64_t cut_short;
  // Of the first: the number of the system call; of a page fault 0.
  uint64_t first_number;
  // Of the first: the address behind the system call or allocation, or that was not there.
  uint64_t first_address;
} punctual_violations_t;

// The owner's handle of the deadline policy of a thread, to be dropped once.
typedef punctual_deadline *punctual_deadline_h;

// Storage of the caller's for the deadline policy of a thread; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[12];
} punctual_deadline_t;

// A borrowed handle of the deadline policy of a thread.
typedef punctual_deadline *punctual_deadline_h_ref;

// The owner's handle of the figures of an application, to be dropped once.
typedef punctual_figures *punctual_figures_h;

// The owner's handle of a lane, to be dropped once.
typedef punctual_lane *punctual_lane_h;

// Storage of the caller's for the figures of an application; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[4];
} punctual_figures_t;

// Storage of the caller's for a lane; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[16];
} punctual_lane_t;

// A borrowed handle of the figures of an application.
typedef punctual_figures *punctual_figures_h_ref;

// What a lane is for.
typedef struct {
  // sizeof this structure.
  size_t size;
  // Its name, UTF-8, cut at 32 bytes.
  const char *name;
  // The period; 0: none.
  int64_t period_ns;
  // A sample above is kept with its time; 0: only the largest of each second.
  int64_t budget_ns;
  // A value of `punctual_kind`.
  uint32_t kind;
  // 0.
  uint32_t reserved;
} punctual_lane_spec_t;

// A borrowed handle of a lane.
typedef punctual_lane *punctual_lane_h_ref;

// The account of a loop: due = run + missed.
typedef struct {
  // sizeof this structure.
  size_t size;
  // Periods that came due.
  uint64_t due;
  // Periods whose job was run.
  uint64_t run;
  // Periods without a job.
  uint64_t missed;
  // Of those run: jobs that began when the next one was due, or after an overrun.
  uint64_t late;
} punctual_account_t;

// The owner's handle of a guard of system calls, to be dropped once.
typedef punctual_system_call_guard *punctual_system_call_guard_h;

// The owner's handle of a guard of page faults, to be dropped once.
typedef punctual_page_fault_guard *punctual_page_fault_guard_h;

// Storage of the caller's for a guard of system calls; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[4];
} punctual_system_call_guard_t;

// A borrowed handle of a guard of system calls.
typedef punctual_system_call_guard *punctual_system_call_guard_h_ref;

// Storage of the caller's for a guard of page faults; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[4];
} punctual_page_fault_guard_t;

// A borrowed handle of a guard of page faults.
typedef punctual_page_fault_guard *punctual_page_fault_guard_h_ref;

// The owner's handle of a lock with its condition, to be dropped once.
typedef punctual_monitor *punctual_monitor_h;

// Storage of the caller's for a lock with its condition; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[4];
} punctual_monitor_t;

// A borrowed handle of a lock with its condition.
typedef punctual_monitor *punctual_monitor_h_ref;

// The owner's handle of a periodic loop, to be dropped once.
typedef punctual_periodic *punctual_periodic_h;

// Storage of the caller's for a periodic loop; its content is the library's own.
typedef struct {
  // Not to be touched.
  uint64_t reserved[24];
} punctual_periodic_t;

// How a loop is to be.
typedef struct {
  // sizeof this structure.
  size_t size;
  // The period, above 0.
  int64_t period_ns;
  // The first release on CLOCK_MONOTONIC; 0: one period from now.
  int64_t first_release_ns;
  // A value of `punctual_overrun`.
  uint32_t overrun;
  // With PUNCTUAL_OVERRUN_CATCH_UP: how many at most.
  uint32_t catch_up;
} punctual_periodic_spec_t;

// A borrowed handle of a periodic loop.
typedef punctual_periodic *punctual_periodic_h_ref;

// One job that is to be run now.
typedef struct {
  // sizeof this structure.
  size_t size;
  // When it was due.
  int64_t release_ns;
  // When the thread was awake for it.
  int64_t start_ns;
  // Periods missed between the job before and this one.
  uint64_t missed;
} punctual_job_t;

// A scheduling policy.
typedef struct {
  // sizeof this structure.
  size_t size;
  // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO or SCHED_RR of sched.h.
  int32_t policy;
  // 1 to 99 for SCHED_FIFO and SCHED_RR.
  int32_t priority;
  // -20 to 19 for SCHED_OTHER and SCHED_BATCH.
  int32_t nice;
  // 0.
  int32_t reserved;
} punctual_policy_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface that the library has: PUNCTUAL_ABI_VERSION of its header.
uint32_t punctual_abi_version(void);

// Called by `punctual_malloc.c` before `main`: who counts. The first one stays.
void punctual_allocation_install(punctual_allocation_state_of state_of);

// Ends a guard of allocations; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made in this thread and not dropped, which nobody uses any more.
void punctual_allocation_guard_drop(punctual_allocation_guard_h handle);

// Makes a guard of what the calling thread asks of malloc, calloc, realloc, free,
// aligned_alloc and posix_memalign; it counts in regions, and the program goes on. One guard
// of a thread at a time. Errors: EOPNOTSUPP where `punctual_malloc.c` is not compiled into the
// program.
//
// # Safety
// `storage` is NULL or a punctual_allocation_guard_t; `handle` may be written to.
int punctual_allocation_guard_new(punctual_allocation_guard_t *storage,
                                  punctual_allocation_guard_h *handle);

// Begins a region: one store of a byte.
//
// # Safety
// `handle` is a guard of the calling thread.
int punctual_allocation_guard_enter(punctual_allocation_guard_h_ref handle);

// Ends a region.
//
// # Safety
// `handle` is a guard of the calling thread.
int punctual_allocation_guard_leave(punctual_allocation_guard_h_ref handle);

// What was seen so far. `first_address` is behind the first call.
//
// # Safety
// `handle` is a guard of the calling thread; `violations` says its size.
int punctual_allocation_guard_violations(punctual_allocation_guard_h_ref handle,
                                         punctual_violations_t *violations);

// Ends the deadline policy of a thread; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_deadline_drop(punctual_deadline_h handle);

// Gives the calling thread SCHED_DEADLINE, with a signal (SIGXCPU) for each time that it
// used its runtime up. Dropped, it has its former policy again. Errors: EPERM; EBUSY
// where no bandwidth is left, or the signal is taken; EINVAL.
//
// # Safety
// `storage` is NULL or a punctual_deadline_t; `handle` may be written to.
int punctual_deadline_new(punctual_deadline_t *storage,
                          int64_t runtime_ns,
                          int64_t deadline_ns,
                          int64_t period_ns,
                          punctual_deadline_h *handle);

// Gives the rest of the runtime back until the next period begins.
//
// # Safety
// `handle` is of the calling thread.
int punctual_deadline_end_job(punctual_deadline_h_ref handle);

// How often the runtime was used up.
//
// # Safety
// `handle` is of the calling thread; `overruns` may be written to.
int punctual_deadline_overruns(punctual_deadline_h_ref handle, uint64_t *overruns);

// Why the last call of this thread failed that did: a text that stays until the next one
// fails. It says which right is missing and how to get it. Never NULL.
const char *punctual_last_error(void);

// Ends the figures of an application; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_figures_drop(punctual_figures_h handle);

// Ends a lane; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_lane_drop(punctual_lane_h handle);

// Makes the figures of this application, in sealed memory with so many lanes (1 to 64).
// Errors: EINVAL; EOPNOTSUPP before Linux 5.1; those of memfd_create(2).
//
// # Safety
// `storage` is NULL or a punctual_figures_t; `name` ends in a zero byte; `handle` may be
// written to.
int punctual_figures_new(punctual_figures_t *storage,
                         const char *name,
                         size_t lanes,
                         punctual_figures_h *handle);

// Makes a lane for what the calling thread measures. It may outlive the handle of its
// figures. Errors: EINVAL; ENOSPC where all lanes are in use.
//
// # Safety
// `storage` is NULL or a punctual_lane_t; `spec` says its size; `handle` may be written
// to.
int punctual_lane_new(punctual_lane_t *storage,
                      punctual_figures_h_ref figures,
                      const punctual_lane_spec_t *spec,
                      punctual_lane_h *handle);

// Counts one sample of a job that was released at `at_ns`. No system call.
//
// # Safety
// `handle` is a lane that no other thread uses.
int punctual_lane_record(punctual_lane_h_ref handle, int64_t at_ns, int64_t ns);

// Sets the account of the periods so far, from punctual_periodic_account().
//
// # Safety
// As for punctual_lane_record(); `account` says its size.
int punctual_lane_account(punctual_lane_h_ref handle, const punctual_account_t *account);

// Ends a guard of system calls; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_system_call_guard_drop(punctual_system_call_guard_h handle);

// Ends a guard of page faults; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_page_fault_guard_drop(punctual_page_fault_guard_h handle);

// Makes a guard of the calling thread's system calls; it counts in regions, and the program
// goes on. Errors: EOPNOTSUPP before Linux 5.11 and on other architectures than x86-64; EBUSY
// where another part of the program handles SIGSYS.
//
// # Safety
// `storage` is NULL or a punctual_system_call_guard_t; `handle` may be written to.
int punctual_system_call_guard_new(punctual_system_call_guard_t *storage,
                                   punctual_system_call_guard_h *handle);

// Begins a region: one store of a byte.
//
// # Safety
// `handle` is a guard of the calling thread.
int punctual_system_call_guard_enter(punctual_system_call_guard_h_ref handle);

// Ends a region.
//
// # Safety
// `handle` is a guard of the calling thread.
int punctual_system_call_guard_leave(punctual_system_call_guard_h_ref handle);

// What was seen so far.
//
// # Safety
// `handle` is a guard of the calling thread; `violations` says its size.
int punctual_system_call_guard_violations(punctual_system_call_guard_h_ref handle,
                                          punctual_violations_t *violations);

// Makes a guard of the calling thread's page faults; it counts in regions, and the program
// goes on. Errors: EOPNOTSUPP before Linux 5.13; EBUSY where another part of the program handles
// SIGTRAP.
//
// # Safety
// `storage` is NULL or a punctual_page_fault_guard_t; `handle` may be written to.
int punctual_page_fault_guard_new(punctual_page_fault_guard_t *storage,
                                  punctual_page_fault_guard_h *handle);

// Begins a region: one store of a byte.
//
// # Safety
// `handle` is a guard of the calling thread.
int punctual_page_fault_guard_enter(punctual_page_fault_guard_h_ref handle);

// Ends a region.
//
// # Safety
// `handle` is a guard of the calling thread.
int punctual_page_fault_guard_leave(punctual_page_fault_guard_h_ref handle);

// What was seen so far.
//
// # Safety
// `handle` is a guard of the calling thread; `violations` says its size.
int punctual_page_fault_guard_violations(punctual_page_fault_guard_h_ref handle,
                                         punctual_violations_t *violations);

// Ends a lock with its condition; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_monitor_drop(punctual_monitor_h handle);

// Makes an unlocked one, for the threads of this process. It must not be moved. Errors:
// ENOSYS where the kernel has no priority inheritance.
//
// # Safety
// `storage` is NULL or a punctual_monitor_t; `handle` may be written to.
int punctual_monitor_new(punctual_monitor_t *storage, punctual_monitor_h *handle);

// Waits until the lock is free and takes it. Errors: EDEADLK where this thread has it.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_lock(punctual_monitor_h_ref handle);

// Lets go of the lock. Errors: EPERM where this thread does not have it.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_unlock(punctual_monitor_h_ref handle);

// Lets go of the lock, waits to be notified, and takes it again. It may return without a
// reason: look at what is waited for. Errors: EPERM where this thread does not have it.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_wait(punctual_monitor_h_ref handle);

// As punctual_monitor_wait(), until `deadline_ns` at the latest: 1 where it has passed,
// else 0.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_wait_until(punctual_monitor_h_ref handle, int64_t deadline_ns);

// Wakes the waiter with the highest priority. Errors: EPERM where this thread does not
// have the lock.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_notify_one(punctual_monitor_h_ref handle);

// Wakes all waiters, one after the other by their priority. Errors: EPERM where this
// thread does not have the lock.
//
// # Safety
// `handle` is a monitor.
int punctual_monitor_notify_all(punctual_monitor_h_ref handle);

// Ends a periodic loop; NULL is none. Its storage is the caller's again.
//
// # Safety
// A handle that was made and not dropped, which nobody uses any more.
void punctual_periodic_drop(punctual_periodic_h handle);

// Makes a loop that waits by clock_nanosleep(2) on CLOCK_MONOTONIC, for the thread that
// calls punctual_periodic_wait(). Errors: EINVAL.
//
// # Safety
// `storage` is NULL or a punctual_periodic_t; `spec` says its size; `handle` may be
// written to.
int punctual_periodic_new(punctual_periodic_t *storage,
                          const punctual_periodic_spec_t *spec,
                          punctual_periodic_h *handle);

// Waits for the next job: 1 and the job, or 0 where a signal handler ran first (then
// wait again, or end).
//
// # Safety
// `handle` is a loop that no other thread uses; `job` says its size.
int punctual_periodic_wait(punctual_periodic_h_ref handle, punctual_job_t *job);

// What became of the periods so far.
//
// # Safety
// As for punctual_periodic_wait().
int punctual_periodic_account(punctual_periodic_h_ref handle, punctual_account_t *account);

// Follows an external phase: releases are moved towards `edge_ns + n * period` by at
// most `step_ns`. `error_ns`, where it is not NULL, is the error that was seen.
//
// # Safety
// `handle` is a loop that no other thread uses; `error_ns` is NULL or may be written to.
int punctual_periodic_follow(punctual_periodic_h_ref handle,
                             int64_t edge_ns,
                             int64_t step_ns,
                             int64_t *error_ns);

// Sends what is written at once (TCP_NODELAY).
//
// # Safety
// Nobody closes the descriptor meanwhile.
int punctual_tcp_send_at_once(int fd);

// Holds segments back until punctual_tcp_uncork(): the pieces of one message leave as
// one. Errors: EOPNOTSUPP where the socket does not send at once otherwise.
//
// # Safety
// As for punctual_tcp_send_at_once().
int punctual_tcp_cork(int fd);

// Sends what was held back.
//
// # Safety
// As for punctual_tcp_send_at_once().
int punctual_tcp_uncork(int fd);

// Gives the calling thread a policy. Errors: EPERM, with the limit and how to raise it
// in the message; EINVAL. SCHED_DEADLINE: punctual_deadline_new().
//
// # Safety
// `policy` says its size.
int punctual_set_policy(const punctual_policy_t *policy);

// The highest real-time priority that this process may have; 0: none.
int punctual_max_priority(void);

// Binds the calling thread to `count` CPUs. Errors: EINVAL for one that is not there,
// offline, or outside of the cpuset.
//
// # Safety
// `cpus` points to `count` numbers.
int punctual_set_affinity(const uint32_t *cpus, size_t count);

// Keeps all memory of this process in RAM, that of later, too, each page from its first
// touch on; until the process ends. Errors: ENOMEM or EPERM with the limit in the
// message.
int punctual_lock_memory(void);

// Touches so many bytes of the calling thread's stack. Errors: EINVAL where it has less.
int punctual_prefault_stack(size_t bytes);

// CLOCK_MONOTONIC now, in nanoseconds. No system call on the common clock sources.
int64_t punctual_now_ns(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PUNCTUAL_H */
