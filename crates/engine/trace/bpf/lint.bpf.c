// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Counts acts that cost latency in the real-time threads of some processes, by
 * call site.
 *
 * Each program handles one tracepoint, drops events of other threads, and
 * adds to `sites`: the kind, the system call, the user-space stack. User space
 * decides what counts as a violation (crate lint).
 */
#include "lint.h"

enum { POLICY_FIFO = 1, POLICY_RR = 2, POLICY_DEADLINE = 6 };
enum { STATE_INTERRUPTIBLE = 1, STATE_UNINTERRUPTIBLE = 2 };
/* include/trace/events/lock.h: without sleeping, or with priority inheritance. */
enum { LOCK_SPINS = 1, LOCK_INHERITS = 8 };

/* `kind` of a site; the numbers must match src/lint/layout.rs. */
enum {
	FAULT,
	SLEEP,
	WOKEN_BY_THREAD,
	WOKEN_BY_SOFTIRQ,
	INHERIT,
	KERNEL_LOCK,
	MIGRATE,
	SIGNAL,
	MEMORY,
	FILE_CALL,
};

/* Flags of `calls`: which arguments belong to a site, and the type of the call. */
enum { KEEP_FIRST = 1, KEEP_SECOND = 2, IS_MEMORY = 4, IS_FUTEX = 8, IS_FILE = 16, OF_FILE = 32 };
enum { CALLS = 512 };

enum { FRAMES = 12 };
/* Words of the user-space stack, to find callers in libraries without frame pointers. */
enum { WORDS = 64 };
enum { NO_CALL = -1, UNKNOWN_CALL = -2 };

/* The first waits of a thread, or this many ns, whichever ends first, are not judged. */
const volatile u32 first_sleeps = 5;
const volatile u64 first_ns = 500000000;

struct site {
	u32 kind;
	u32 tid;
	int call;
	u32 other;
	u64 arguments[2];
	u64 stack[FRAMES];
};

struct tally {
	u64 count;
	u64 worst;
	u64 address;
	int priority;
	int other_priority;
	char comm[16];
	char other_comm[16];
	u64 words[WORDS];
};

struct thread {
	u64 since;
	u64 sleeps;
	u64 asleep_since;
	u64 lock_since;
	u64 lock;
	struct site asleep;
	struct site locked;
};

struct cpu {
	u64 lost;
	u64 switches;	/* away from watched threads */
	u64 execs;
	u32 interrupts;
	u32 timer;
	u32 softirq_task;	/* pid + 1 */
	u32 softirq;
	u32 observing;		/* a program reads user memory: its page faults are our own */
	u32 padding;
};

/* Processes (ID << 32) and single threads (ID). */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, u32);
} targets SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct thread);
} threads SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, struct site);
	MAP_TYPE(value, struct tally);
} sites SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, CALLS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} calls SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

/* A new thread's initial value: too large for the stack. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct thread);
} blank SEC(".maps");

INLINE struct cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

INLINE void count_lost(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->lost++;
}

INLINE int is_watched(const struct task_struct *task)
{
	u32 policy = task->policy;
	u64 key;

	if (policy != POLICY_FIFO && policy != POLICY_RR && policy != POLICY_DEADLINE)
		return 0;
	key = (u64)(u32)task->tgid << 32;
	if (bpf_map_lookup_elem(&targets, &key))
		return 1;
	key = (u32)task->pid;
	return bpf_map_lookup_elem(&targets, &key) != 0;
}

INLINE struct thread *thread_of(const struct task_struct *task)
{
	u32 tid = task->pid, zero = 0;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	struct thread *fresh;

	if (thread)
		return thread;
	fresh = bpf_map_lookup_elem(&blank, &zero);
	if (!fresh || bpf_map_update_elem(&threads, &tid, fresh, BPF_NOEXIST)) {
		count_lost();
		return 0;
	}
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread)
		thread->since = bpf_ktime_get_ns();
	return thread;
}

INLINE int is_judged(const struct thread *thread)
{
	return thread->sleeps > first_sleeps || bpf_ktime_get_ns() - thread->since > first_ns;
}

/* The thread's state, if it is watched, past its first periods, and not being killed. */
INLINE struct thread *judged(const struct task_struct *task)
{
	struct thread *thread;

	if (!is_watched(task) ||
	    ((struct task_struct___signal *)task)->signal->flags & SIGNAL_GROUP_EXIT)
		return 0;
	thread = thread_of(task);
	return thread && is_judged(thread) ? thread : 0;
}

/* The system call that a thread is in. */
INLINE void read_call(struct site *site, struct task_struct *task)
{
	void *regs = bpf_task_pt_regs(task);
	u64 first = 0, second = 0;
	u32 number, *flags;

	site->call = UNKNOWN_CALL;
	if (HAS(pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *x86 = regs;

		site->call = (long)x86->orig_ax;
		first = x86->di;
		second = x86->si;
	} else if (HAS(pt_regs___arm64, syscallno)) {
		struct pt_regs___arm64 *arm64 = regs;

		site->call = arm64->syscallno;
		first = arm64->orig_x0;
		second = arm64->regs[1];
	}
	number = site->call;
	flags = bpf_map_lookup_elem(&calls, &number);
	if (!flags)
		return;
	if (*flags & KEEP_FIRST)
		site->arguments[0] = first;
	if (*flags & KEEP_SECOND)
		site->arguments[1] = second;
}

INLINE void observing(u32 on)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->observing = on;
}

INLINE void user_stack(void *context, struct site *site)
{
	observing(1);
	bpf_get_stack(context, site->stack, sizeof(site->stack), BPF_F_USER_STACK);
	observing(0);
}

/* Reads the stack of the current thread, once per site. */
INLINE void stack_words(struct tally *tally)
{
	void *regs = bpf_task_pt_regs(bpf_get_current_task_btf());

	if (HAS(pt_regs___x86, sp)) {
		bpf_probe_read_user(tally->words, sizeof(tally->words),
				    (void *)((struct pt_regs___x86 *)regs)->sp);
	} else if (HAS(pt_regs___arm64, sp)) {
		struct pt_regs___arm64 *arm64 = regs;

		bpf_probe_read_user(&tally->words[1], sizeof(tally->words) - sizeof(u64),
				    (void *)arm64->sp);
		tally->words[0] = arm64->regs[30];
	}
}

/* A new site's initial value: too large for the stack. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct tally);
} blank_tally SEC(".maps");

INLINE void add(const struct site *site, const struct task_struct *task,
		const struct task_struct *other, u64 address)
{
	struct tally *known = bpf_map_lookup_elem(&sites, site);
	struct tally *fresh;
	u32 zero = 0;

	if (known) {
		__sync_fetch_and_add(&known->count, 1);
		known->address = address;
		return;
	}
	fresh = bpf_map_lookup_elem(&blank_tally, &zero);
	if (!fresh)
		return;
	/* If it exists by now, another CPU was faster. */
	bpf_map_update_elem(&sites, site, fresh, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&sites, site);
	if (!known) {
		count_lost();
		return;
	}
	__sync_fetch_and_add(&known->count, 1);
	known->address = address;
	known->priority = task->prio;
	bpf_probe_read_kernel(known->comm, sizeof(known->comm), task->comm);
	if (other) {
		known->other_priority = other->prio;
		bpf_probe_read_kernel(known->other_comm, sizeof(known->other_comm), other->comm);
	}
	/* In a softirq the current thread is a different one. */
	if (site->stack[0] && site->kind != WOKEN_BY_SOFTIRQ) {
		observing(1);
		stack_words(known);
		observing(0);
	}
}

INLINE void ended(const struct site *site, u64 since)
{
	struct tally *tally = bpf_map_lookup_elem(&sites, site);
	u64 took = bpf_ktime_get_ns() - since;

	if (tally && (long long)took > (long long)tally->worst)
		tally->worst = took;
}

INLINE u32 state_of(const struct task_struct *task)
{
	if (HAS(task_struct___new, __state))
		return ((struct task_struct___new *)task)->__state;
	return ((struct task_struct___old *)task)->state;
}

SEC("tp_btf/sched_switch")
int switching(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	struct cpu *cpu = this_cpu();
	struct thread *thread;
	struct site site = {};

	if (!cpu)
		return 0;
	/* No interrupt is active here, even if its end was not seen. */
	cpu->interrupts = 0;
	cpu->timer = 0;
	if (!is_watched(prev))
		return 0;
	cpu->switches++;
	thread = thread_of(prev);
	if (!thread)
		return 0;
	if (arguments[0] || !(state_of(prev) & (STATE_INTERRUPTIBLE | STATE_UNINTERRUPTIBLE)))
		return 0;
	thread->sleeps++;
	thread->asleep_since = 0;
	site.kind = SLEEP;
	site.tid = prev->pid;
	read_call(&site, prev);
	thread->asleep = site;
	if (!is_judged(thread))
		return 0;
	user_stack(arguments, &site);
	add(&site, prev, 0, 0);
	thread->asleep = site;
	thread->asleep_since = bpf_ktime_get_ns();
	return 0;
}

INLINE int waits_with_inheritance(const struct task_struct *task, const struct thread *thread)
{
	u32 operation = thread->asleep.arguments[1] & 0x7f, number = thread->asleep.call;
	u32 *flags;

	if (((struct task_struct___blocked *)task)->pi_blocked_on)
		return 1;
	flags = bpf_map_lookup_elem(&calls, &number);
	/* FUTEX_LOCK_PI, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2 */
	return flags && *flags & IS_FUTEX &&
	       (operation == 6 || operation == 11 || operation == 13);
}

SEC("tp_btf/sched_waking")
int waking(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	struct task_struct *waker;
	struct thread *thread = judged(task);
	struct cpu *cpu = this_cpu();
	struct tally *slept, *woken;
	struct site site = {};

	if (!thread || !cpu || !thread->asleep_since)
		return 0;
	ended(&thread->asleep, thread->asleep_since);
	thread->asleep_since = 0;
	if (cpu->interrupts || cpu->timer)
		return 0;
	waker = bpf_get_current_task_btf();
	site.tid = task->pid;
	site.call = thread->asleep.call;
	site.arguments[0] = thread->asleep.arguments[0];
	site.arguments[1] = thread->asleep.arguments[1];
	if (cpu->softirq_task == (u32)waker->pid + 1) {
		site.kind = WOKEN_BY_SOFTIRQ;
		site.other = cpu->softirq;
		__builtin_memcpy(site.stack, thread->asleep.stack, sizeof(site.stack));
		add(&site, task, 0, 0);
		/* The stack of the wait. */
		slept = bpf_map_lookup_elem(&sites, &thread->asleep);
		woken = bpf_map_lookup_elem(&sites, &site);
		if (slept && woken)
			__builtin_memcpy(woken->words, slept->words, sizeof(woken->words));
		return 0;
	}
	/* An idle CPU cannot wake a thread: this is an interrupt without an event. */
	if (!waker->pid || waker->pid == task->pid || waker->prio <= task->prio ||
	    waits_with_inheritance(task, thread))
		return 0;
	site.kind = WOKEN_BY_THREAD;
	site.other = waker->pid;
	user_stack(arguments, &site);
	add(&site, task, waker, 0);
	return 0;
}

SEC("tp_btf/sched_pi_setprio")
int inheriting(u64 *arguments)
{
	struct task_struct *holder = (struct task_struct *)arguments[0];
	struct task_struct *waiter = (struct task_struct *)arguments[1];
	struct site site = {};

	if (!waiter || holder->prio <= waiter->prio || !judged(waiter))
		return 0;
	site.kind = INHERIT;
	site.tid = waiter->pid;
	site.other = holder->pid;
	read_call(&site, waiter);
	if ((u32)bpf_get_current_pid_tgid() == site.tid)
		user_stack(arguments, &site);
	add(&site, waiter, holder, 0);
	return 0;
}

INLINE void of_current(void *context, u32 kind, u32 other, u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct site site = {};

	if (!judged(task))
		return;
	site.kind = kind;
	site.tid = task->pid;
	site.other = other;
	read_call(&site, task);
	user_stack(context, &site);
	add(&site, task, 0, address);
}

SEC("tp_btf/page_fault_user")
int faulting(u64 *arguments)
{
	of_current(arguments, FAULT, 0, arguments[0]);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int faulting_in_call(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (cpu && !cpu->observing)
		of_current(arguments, FAULT, 1, arguments[0]);
	return 0;
}

SEC("tp_btf/signal_deliver")
int signalled(u64 *arguments)
{
	of_current(arguments, SIGNAL, arguments[0], 0);
	return 0;
}

/* Returns the type of a call's open file, as in i_mode, or ANONYMOUS; 0 if it is
 * unknown. */
INLINE u32 type_of_file(const void *regs)
{
	struct task_struct___files *task =
		(struct task_struct___files *)bpf_get_current_task_btf();
	struct fdtable *table = task->files->fdt;
	u64 descriptor = ~0ULL, magic = 0;
	struct super_block *super = 0;
	struct inode *inode = 0;
	struct file *file = 0;
	unsigned short mode = 0;

	if (HAS(pt_regs___x86, di))
		descriptor = ((struct pt_regs___x86 *)regs)->di;
	else if (HAS(pt_regs___arm64, orig_x0))
		descriptor = ((struct pt_regs___arm64 *)regs)->orig_x0;
	if (descriptor >= table->max_fds)
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + descriptor);
	if (!file)
		return 0;
	bpf_probe_read_kernel(&inode, sizeof(inode), &file->f_inode);
	if (!inode)
		return 0;
	bpf_probe_read_kernel(&mode, sizeof(mode), &inode->i_mode);
	bpf_probe_read_kernel(&super, sizeof(super), &inode->i_sb);
	if (super)
		bpf_probe_read_kernel(&magic, sizeof(unsigned long), &super->s_magic);
	return magic == ANON_INODE_FS_MAGIC ? ANONYMOUS : mode & S_IFMT;
}

SEC("tp_btf/sys_enter")
int calling(u64 *arguments)
{
	u32 number = arguments[1];
	u32 *flags = bpf_map_lookup_elem(&calls, &number);

	if (!flags)
		return 0;
	if (*flags & IS_MEMORY)
		of_current(arguments, MEMORY, 0, 0);
	else if (*flags & IS_FILE && judged(bpf_get_current_task_btf()))
		of_current(arguments, FILE_CALL,
			   *flags & OF_FILE ?
				   type_of_file(bpf_task_pt_regs(bpf_get_current_task_btf())) :
				   0,
			   0);
	return 0;
}

SEC("tp_btf/contention_begin")
int contending(u64 *arguments)
{
	struct task_struct *task;
	struct thread *thread;
	struct site site = {};

	if ((u32)arguments[1] & (LOCK_SPINS | LOCK_INHERITS))
		return 0;
	task = bpf_get_current_task_btf();
	thread = judged(task);
	if (!thread)
		return 0;
	site.kind = KERNEL_LOCK;
	site.tid = task->pid;
	read_call(&site, task);
	user_stack(arguments, &site);
	add(&site, task, 0, 0);
	thread->locked = site;
	thread->lock = arguments[0];
	thread->lock_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/contention_end")
int contended(u64 *arguments)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (!thread || !thread->lock_since || thread->lock != arguments[0])
		return 0;
	ended(&thread->locked, thread->lock_since);
	thread->lock_since = 0;
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int migrating(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	struct site site = {};

	if (!judged(task))
		return 0;
	site.kind = MIGRATE;
	site.tid = task->pid;
	site.call = NO_CALL;
	add(&site, task, 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int executing(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u64 key = (u64)(u32)task->tgid << 32;
	struct cpu *cpu = this_cpu();

	if (cpu && bpf_map_lookup_elem(&targets, &key))
		cpu->execs++;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exiting(u64 *arguments)
{
	u32 tid = ((struct task_struct *)arguments[0])->pid;

	bpf_map_delete_elem(&threads, &tid);
	return 0;
}

/* The source of a wake-up: an active interrupt on this CPU, or a softirq. */

#define INTERRUPT(name)                                                                      \
	SEC("tp_btf/" #name "_entry")                                                        \
	int name##_begins(u64 *arguments)                                                    \
	{                                                                                    \
		struct cpu *cpu = this_cpu();                                                \
										     \
		if (cpu)                                                                     \
			cpu->interrupts++;                                                   \
		return 0;                                                                    \
	}                                                                                    \
											     \
	SEC("tp_btf/" #name "_exit")                                                         \
	int name##_ends(u64 *arguments)                                                      \
	{                                                                                    \
		struct cpu *cpu = this_cpu();                                                \
										     \
		if (cpu && cpu->interrupts)                                                  \
			cpu->interrupts--;                                                   \
		return 0;                                                                    \
	}

INTERRUPT(irq_handler)
INTERRUPT(local_timer)
INTERRUPT(irq_work)
INTERRUPT(call_function)
INTERRUPT(call_function_single)
INTERRUPT(ipi)

SEC("tp_btf/hrtimer_expire_entry")
int timer_begins(u64 *arguments)
{
	struct hrtimer *timer = (struct hrtimer *)arguments[0];
	struct cpu *cpu = this_cpu();

	if (cpu && !timer->is_soft)
		cpu->timer = 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int timer_ends(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->timer = 0;
	return 0;
}

SEC("tp_btf/softirq_entry")
int softirq_begins(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (cpu) {
		cpu->softirq_task = (u32)bpf_get_current_pid_tgid() + 1;
		cpu->softirq = arguments[0];
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	/* On PREEMPT_RT another thread's softirq may have begun meanwhile. */
	if (cpu && cpu->softirq_task == (u32)bpf_get_current_pid_tgid() + 1)
		cpu->softirq_task = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
