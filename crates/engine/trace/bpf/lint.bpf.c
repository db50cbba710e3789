// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Counts acts that cost latency in the real-time threads of some processes, by
 * call site.
 *
 * Each program handles one tracepoint, drops events of other threads, and
 * adds to `sites`: the kind, the system call, the user-space stack. User space
 * decides what counts as a violation (crate lint).
 */
#include "lint_calls.h"

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
	QUEUE,
};

/* Flags of `calls`: which arguments belong to a site, and the type of the call. */
enum {
	KEEP_FIRST = 1,
	KEEP_SECOND = 2,
	IS_MEMORY = 4,
	IS_FUTEX = 8,
	IS_FILE = 16,
	OF_FILE = 32,
	IS_POLL = 64,
	IS_SELECT = 128,
	PATH_FIRST = 256,
	PATH_SECOND = 512,
	OPENS = 1024,
	ADDRESS_SECOND = 2048,
	ADDRESS_FIFTH = 4096,
	IS_SIGWAIT = 8192,
};
/* Second argument of a site that polls: what the mask of descriptors, the first one, lacks. */
enum { MORE_DESCRIPTORS = 1, NO_DESCRIPTOR = 2, HAS_TIMEOUT = 4 };
enum { POLLED = 16, DESCRIPTORS_IN_MASK = 64 };
enum { NAME = 64 };
/* Flag in the number of a signal. */
enum { TIMER_SIGNAL = 256 };
enum { CALLS = 512 };

enum { FRAMES = 12 };
/* Words of the user-space stack, to find callers in libraries without frame pointers. */
enum { WORDS = 64 };
enum { NO_CALL = -1, UNKNOWN_CALL = -2 };

/* The first waits of a thread, or this many ns, whichever ends first, are not judged. */
const volatile u32 first_sleeps = 5;
const volatile u64 first_ns = 500000000;
/* A shorter wait for the CPU of another watched thread is not counted. */
const volatile u64 queue_ns = 100000;

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
	char name[NAME];	/* of the last call on a file: its path, or the address of a peer */
	u64 words[WORDS];
};

struct thread {
	u64 since;
	u64 sleeps;
	u64 asleep_since;
	u64 runnable_since;
	u64 runs_since;		/* with this CPU time */
	u64 used;
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

/* A system call and its arguments. */
struct call {
	int number;
	u64 first, second, third, fourth, fifth;
};

INLINE void read_registers(struct call *call, void *regs)
{
	call->number = UNKNOWN_CALL;
	if (HAS(pt_regs___x86_call, orig_ax)) {
		struct pt_regs___x86_call *x86 = regs;

		call->number = (long)x86->orig_ax;
		call->first = x86->di;
		call->second = x86->si;
		call->third = x86->dx;
		call->fourth = x86->r10;
		call->fifth = x86->r8;
	} else if (HAS(pt_regs___arm64, syscallno)) {
		struct pt_regs___arm64 *arm64 = regs;

		call->number = arm64->syscallno;
		call->first = arm64->orig_x0;
		call->second = arm64->regs[1];
		call->third = arm64->regs[2];
		call->fourth = arm64->regs[3];
		call->fifth = arm64->regs[4];
	}
}

/* Reads which descriptors the current thread polls, as a mask. */
INLINE void read_polled(struct site *site, const struct call *call, u32 flags)
{
	u64 mask = 0, lacks = 0;
	int i;

	if (flags & IS_SELECT) {
		if (call->fifth)
			lacks = HAS_TIMEOUT;
		if (!call->first)
			lacks |= NO_DESCRIPTOR;
		/* Write and exception sets have no timers. */
		if (call->first && call->second &&
		    bpf_probe_read_user(&mask, sizeof(mask), (void *)call->second))
			lacks |= MORE_DESCRIPTORS;
		if (call->first < DESCRIPTORS_IN_MASK)
			mask &= (1ULL << (call->first & 63)) - 1;
		else
			lacks |= MORE_DESCRIPTORS;
	} else {
		if (flags & KEEP_SECOND ? call->third != 0 : (int)call->third >= 0)
			lacks = HAS_TIMEOUT;
		if (!call->second)
			lacks |= NO_DESCRIPTOR;
		if (call->second > POLLED)
			lacks |= MORE_DESCRIPTORS;
		for (i = 0; i < POLLED; i++) {
			int polled = -1;

			if (i >= call->second)
				break;
			if (bpf_probe_read_user(&polled, sizeof(polled), (void *)(call->first + POLLED_SIZE * i)) ||
			    polled >= DESCRIPTORS_IN_MASK)
				lacks |= MORE_DESCRIPTORS;
			else if (polled >= 0)
				mask |= 1ULL << (polled & 63);
		}
	}
	site->arguments[0] = mask;
	site->arguments[1] = lacks;
}

/* The system call that a thread is in. */
INLINE void read_call(struct site *site, struct task_struct *task)
{
	struct call call = {};
	u32 number, *flags;

	read_registers(&call, bpf_task_pt_regs(task));
	site->call = call.number;
	number = call.number;
	flags = bpf_map_lookup_elem(&calls, &number);
	if (!flags)
		return;
	if (*flags & (IS_POLL | IS_SELECT)) {
		if (task == bpf_get_current_task_btf())
			read_polled(site, &call, *flags);
		return;
	}
	if (*flags & IS_SIGWAIT && task == bpf_get_current_task_btf())
		bpf_probe_read_user(&site->arguments[0], sizeof(u64), (void *)call.first);
	if (*flags & KEEP_FIRST)
		site->arguments[0] = call.first;
	if (*flags & KEEP_SECOND)
		site->arguments[1] = call.second;
	/* A wait on a futex without a timeout has no clock. */
	if (*flags & IS_FUTEX)
		site->arguments[0] = call.fourth != 0;
}

INLINE void user_stack(void *context, struct site *site)
{
	bpf_get_stack(context, site->stack, sizeof(site->stack), BPF_F_USER_STACK);
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

INLINE struct tally *add(const struct site *site, const struct task_struct *task,
		const struct task_struct *other, u64 address)
{
	struct tally *known = bpf_map_lookup_elem(&sites, site);
	struct tally *fresh;
	u32 zero = 0;

	if (known) {
		__sync_fetch_and_add(&known->count, 1);
		known->address = address;
		return known;
	}
	fresh = bpf_map_lookup_elem(&blank_tally, &zero);
	if (!fresh)
		return 0;
	/* If it exists by now, another CPU was faster. */
	bpf_map_update_elem(&sites, site, fresh, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&sites, site);
	if (!known) {
		count_lost();
		return 0;
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
	if (site->stack[0] && site->kind != WOKEN_BY_SOFTIRQ)
		stack_words(known);
	return known;
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

/* CPU time of a thread, without interrupts and stolen time if the kernel accounts for them. */
INLINE u64 cpu_time(const struct task_struct *task)
{
	return ((struct task_struct___runtime *)task)->se.sum_exec_runtime;
}

/* The CPU changes from one watched thread to another. */
INLINE void queued(const struct task_struct *task, struct thread *thread,
		   const struct task_struct *holder)
{
	u32 tid = holder->pid;
	struct thread *held = bpf_map_lookup_elem(&threads, &tid);
	u64 now = bpf_ktime_get_ns(), since, had, used;
	struct site site = {};
	struct tally *tally;

	if (!held || !held->runs_since || !thread->runnable_since || !is_judged(thread))
		return;
	since = held->runs_since;
	had = now - since;
	used = cpu_time(holder) - held->used;
	if (thread->runnable_since > since)
		since = thread->runnable_since;
	/* While something else had the CPU, such as the hypervisor, the thread did not wait for
	 * the holder. All of that may have been during the wait. */
	since += had > used ? had - used : 0;
	if ((long long)(now - since) < (long long)queue_ns)
		return;
	site.kind = QUEUE;
	site.tid = task->pid;
	site.call = NO_CALL;
	site.other = holder->pid;
	tally = add(&site, task, holder, 0);
	if (tally && now - since > tally->worst)
		tally->worst = now - since;
}

/* A watched thread gets the CPU. */
INLINE void starts(struct task_struct *task, struct task_struct *from)
{
	struct thread *thread;

	if (!is_watched(task))
		return;
	thread = thread_of(task);
	if (!thread)
		return;
	if (is_watched(from))
		queued(task, thread, from);
	thread->runs_since = bpf_ktime_get_ns();
	thread->used = cpu_time(task);
}

SEC("tp_btf/sched_switch")
int switching(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	struct task_struct *next = (struct task_struct *)arguments[2];
	struct cpu *cpu = this_cpu();
	struct thread *thread;
	struct site site = {};

	if (!cpu)
		return 0;
	/* No interrupt is active here, even if its end was not seen. */
	cpu->interrupts = 0;
	cpu->timer = 0;
	starts(next, prev);
	if (!is_watched(prev))
		return 0;
	cpu->switches++;
	thread = thread_of(prev);
	if (!thread)
		return 0;
	/* A thread that leaves the CPU in another state is blocked until it is woken. */
	thread->runnable_since = arguments[0] || !state_of(prev) ? bpf_ktime_get_ns() : 0;
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

	if (!thread || !cpu)
		return 0;
	if (!thread->runnable_since)
		thread->runnable_since = bpf_ktime_get_ns();
	if (!thread->asleep_since)
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

INLINE struct tally *of_current(void *context, u32 kind, u32 other, u64 address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct site site = {};

	if (!judged(task))
		return 0;
	site.kind = kind;
	site.tid = task->pid;
	site.other = other;
	read_call(&site, task);
	user_stack(context, &site);
	return add(&site, task, 0, address);
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
	if (!page_faults_are_disabled())
		of_current(arguments, FAULT, 1, arguments[0]);
	return 0;
}

SEC("tp_btf/signal_deliver")
int signalled(u64 *arguments)
{
	struct kernel_siginfo *info = (struct kernel_siginfo *)arguments[1];
	u32 number = arguments[0];
	int code = 0, of_timer;

	bpf_probe_read_kernel(&code, sizeof(code), &info->si_code);
	/* timer_create(2), and setitimer(2). */
	of_timer = code == SI_TIMER ||
		   (code == SI_KERNEL && (number == SIGNAL_ALARM || number == SIGNAL_VIRTUAL_ALARM ||
					  number == SIGNAL_PROFILE));
	of_current(arguments, SIGNAL, number | (of_timer ? TIMER_SIGNAL : 0), 0);
	return 0;
}

/* Returns an open file of the current thread. */
INLINE struct file *open_file(u64 descriptor)
{
	struct task_struct___files *task =
		(struct task_struct___files *)bpf_get_current_task_btf();
	struct fdtable *table = task->files->fdt;
	struct file *file = 0;

	if (descriptor < table->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), table->fd + descriptor);
	return file;
}

/* Returns the type of an open file, as in i_mode, or ANONYMOUS; 0 if it is unknown. */
INLINE u32 type_of_file(struct file *file)
{
	struct super_block *super = 0;
	struct inode *inode = 0;
	unsigned short mode = 0;
	u64 magic = 0;

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

/* Reads the path to which the peer of a Unix socket is bound. */
INLINE void read_peer(struct tally *tally, struct file *file)
{
	struct unix_address *address = 0;
	struct socket *socket = 0;
	unsigned short family = 0;
	struct sock *sock = 0;

	if (!HAS(unix_sock, peer))
		return;
	bpf_probe_read_kernel(&socket, sizeof(socket), &((struct file___data *)file)->private_data);
	if (!socket)
		return;
	bpf_probe_read_kernel(&sock, sizeof(sock), &socket->sk);
	if (!sock)
		return;
	bpf_probe_read_kernel(&family, sizeof(family), &sock->__sk_common.skc_family);
	if (family != UNIX_FAMILY)
		return;
	bpf_probe_read_kernel(&sock, sizeof(sock), &((struct unix_sock *)sock)->peer);
	if (!sock)
		return;
	bpf_probe_read_kernel(&address, sizeof(address), &((struct unix_sock *)sock)->addr);
	if (address)
		bpf_probe_read_kernel_str(tally->name, sizeof(tally->name),
					  (char *)&address->name + PATH_IN_ADDRESS);
}

/* Reads the path in a Unix address that the program passes. */
INLINE void read_address(struct tally *tally, u64 address)
{
	unsigned short family = 0;

	bpf_probe_read_user(&family, sizeof(family), (void *)address);
	if (family == UNIX_FAMILY)
		bpf_probe_read_user_str(tally->name, sizeof(tally->name),
					(void *)(address + PATH_IN_ADDRESS));
}

INLINE void read_name(struct tally *tally, const struct call *call, u32 flags, u32 type,
		      struct file *file)
{
	if (flags & PATH_FIRST)
		bpf_probe_read_user_str(tally->name, sizeof(tally->name), (void *)call->first);
	else if (flags & PATH_SECOND)
		bpf_probe_read_user_str(tally->name, sizeof(tally->name), (void *)call->second);
	else if (flags & ADDRESS_SECOND)
		read_address(tally, call->second);
	else if (flags & ADDRESS_FIFTH && call->fifth)
		read_address(tally, call->fifth);
	else if (file && type == S_IFSOCK)
		read_peer(tally, file);
}

SEC("tp_btf/sys_enter")
int calling(u64 *arguments)
{
	u32 number = arguments[1];
	u32 *flags = bpf_map_lookup_elem(&calls, &number);
	struct file *file = 0;
	struct tally *tally;
	struct call call = {};
	u32 type = 0;

	if (!flags)
		return 0;
	if (*flags & IS_MEMORY)
		of_current(arguments, MEMORY, 0, 0);
	else if (*flags & IS_FILE && !(*flags & OPENS) && judged(bpf_get_current_task_btf())) {
		read_registers(&call, bpf_task_pt_regs(bpf_get_current_task_btf()));
		if (*flags & OF_FILE) {
			file = open_file(call.first);
			type = type_of_file(file);
		}
		tally = of_current(arguments, FILE_CALL, type, 0);
		if (tally)
			read_name(tally, &call, *flags, type, file);
	}
	return 0;
}

/* The file of a call that opens it is known at the end of the call. */
SEC("tp_btf/sys_exit")
int called(u64 *arguments)
{
	struct task_struct *task = bpf_get_current_task_btf();
	long result = arguments[1];
	struct call call = {};
	struct tally *tally;
	u32 number, *flags;

	if (!judged(task))
		return 0;
	read_registers(&call, bpf_task_pt_regs(task));
	number = call.number;
	flags = bpf_map_lookup_elem(&calls, &number);
	if (!flags || !(*flags & OPENS))
		return 0;
	tally = of_current(arguments, FILE_CALL, result < 0 ? 0 : type_of_file(open_file(result)), 0);
	if (tally)
		read_name(tally, &call, *flags, 0, 0);
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
