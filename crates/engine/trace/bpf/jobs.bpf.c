// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Writes the events that explain the jobs of watched threads into one ring of records per
 * CPU, which overwrites its oldest. User space maps the rings and reads them without system
 * calls. The few records at the start and end of jobs are also listed by number in a second
 * ring, so that the others are read only if a job took too long.
 *
 * Scheduler events and handlers are recorded on CPUs that matter: those that watched threads,
 * their wakers and the wakers of these ran on, waited for or were woken from in the last
 * second. Of other CPUs only the last switch is kept; it is written once the CPU matters.
 * System calls, page faults, signals and kernel stacks are only those of watched threads.
 *
 * In the light stage, only the programs for the scheduler's events are attached. They record the
 * switches and wake-ups of watched threads, with the system call in which a thread sleeps, and all
 * switches of a CPU for which a watched thread waits.
 *
 * Once user space knows enough about a thread, its jobs are counted here from the next release wait in
 * the light stage on, in the buckets of the histogram of user space. Its records are then written, but not listed. Only a job
 * that is longer than a limit of user space is listed, as one record.
 *
 * User space sleeps until the ring `news` has an entry: a job took longer than the budget, a
 * watched thread forked, executed a program or ended, or a quarter of a ring was written and has
 * listed records.
 */
#include "barrier.h"
#include "jobs.h"
#include "buckets.h"

/* The numbers must match src/jobs/record.rs. */
enum {
	SWITCH = 1,
	WAKING,
	SYS_ENTER,
	SYS_EXIT,
	IRQ_ENTRY,
	IRQ_EXIT,
	SOFTIRQ_ENTRY,
	SOFTIRQ_EXIT,
	VECTOR_ENTRY,
	VECTOR_EXIT,
	FAULT_USER,
	FAULT_KERNEL,
	MIGRATE,
	PI_SETPRIO,
	BLOCK_ISSUE,
	BLOCK_COMPLETE,
	SIGNAL_GENERATE,
	PROCESS_EXIT,
	STACK,
	FORK,
	EXEC,
	FAULT_END,
	SLEEP_UNTIL,
	FUTEX_OWNER,
	SLEEP,
	USER_STACK,
	USER_WORDS,
	WAKER_STACK,
	WAKER_USER_STACK,
	WAKER_USER_WORDS,
	COUNTER,
	INTERRUPT_STACK,
	JOB,
	TAKEN,
	RETURNED,
};

/* Indexes in Vector::NAMED; larger ones are `ipi`. */
enum { LOCAL_TIMER, RESCHEDULE, CALL_FUNCTION, CALL_FUNCTION_SINGLE, IRQ_WORK, IPI = 100 };

/* The flags of TraceEvent. */
enum { FLAG_HARDIRQ = 0x08, FLAG_SOFTIRQ = 0x10 };

/* Set by the loader: the number of records of one CPU (a power of two) - 1; the first
 * thread ID without a bit. */
const volatile u32 ring_mask = 0;
const volatile u32 pid_limit = 0;

enum { FRAMES = 24, FRAMES_OF_RECORD = 6, CALLS = 1024 };
/* The way from a network packet to a thread that waits for it is long. */
enum { FRAMES_OF_INTERRUPT = 36 };
/* Words at the top of a user stack, in which callers are searched that have no frame pointer. */
enum { STACK_WORDS = 48 };
/* The number of user stacks that one CPU records in STACKS_NS limits their cost. */
enum { USER_STACKS = 200, STACKS_NS = 100000000 };
/* The waker's stack is recorded after longer sleeps only. */
enum { WAKER_NS = 20000, ASLEEP = 4096 };
/* Counters, and the number of threads that have sums of them. */
enum { COUNTERS = 3, COUNTED = 4096 };
/* Added to the time of a sum that lacks a part, which then differs from its counted time. */
#define HOLE (1ULL << 48)
/* An entry for a system call that does not exist: set in the light stage. */
enum { LIGHT = CALLS - 1 };

struct task {
	char comm[16];
	u32 pid;
	int prio;
};

struct record {
	u64 time;
	u32 sequence;		/* 0 while it is written */
	u8 kind;
	u8 flags;
	u8 count;		/* of frames */
	u8 part;		/* of a stack; 1 for a wake-up with the waker's name, and for a
				 * switch with the call in which the thread sleeps */
	union {
		struct {
			union {
				char prev_comm[16];
				struct {
					u64 one;
					u32 call;
					u32 two;
				};
			};
			char next_comm[16];
			u32 prev_pid;
			u32 next_pid;
			short prev_prio;
			short next_prio;
			u32 prev_state;
		} of_switch;
		struct {
			u32 pid;
			u32 number;
			u64 one;
			u64 two;
			char text[24];
		} other;
		u64 frames[FRAMES_OF_RECORD];
	};
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct record);
} records SEC(".maps");

/* Per CPU: the number of records begun and listed, of system calls by all threads and by watched
 * threads, and of threads that got the wanted name or were moved to another control group. */
struct head {
	u64 begun;
	u64 listed;
	u64 calls;
	u64 watched_calls;
	u64 stacks_dropped;
	u64 told;		/* `listed` when the reader was last woken for it */
	u64 joins;
	u64 padding;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct head);
} heads SEC(".maps");

/* The number of a record + 1 (lower half), and of this entry + 1. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} listed SEC(".maps");

/* A bit for each watched thread. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} watched SEC(".maps");

/* Threads with an unknown release wait: all their system calls are listed. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} learning SEC(".maps");

/* System calls that are release waits, at which no stack is recorded; and LIGHT. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, CALLS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} release_calls SEC(".maps");

/* Wakes the reader. The entries have no content. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 65536);
} news SEC(".maps");

/* The release waits of a watched thread, and how to count its jobs. Written by user space only. */
struct waits {
	struct release_waits on;
	u64 list_above;		/* longer jobs are listed, not counted */
	u64 origin;		/* beginning of the time series */
	u64 row_length;
	u64 wanted;		/* number in `tallies` + 1 if its jobs should be counted */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct waits);
} release_waits SEC(".maps");

/* The job in progress of a watched thread. Written here only. While the thread is not counted, only
 * `wait` and `released` are known. */
struct job {
	u64 counted;		/* number in `tallies` + 1; 0 while its records are listed */
	u64 wait;		/* number of the release wait that it is in, + 1 */
	u64 last_wait;		/* the same of its last sleep */
	u64 released;		/* 0 if there is no job */
	u64 slept;		/* since when it sleeps; 0 if it does not */
	u64 woken;		/* a wake-up since it runs */
	u64 prio;		/* when it was taken; never negative */
	u64 ran;		/* since its release, up to its last switch */
	u64 running;		/* since when it runs; 0 if it does not */
	u64 call;		/* in which it sleeps, with its first argument */
	u64 argument;
	u64 row;		/* of the time series, and its beginning */
	u64 row_begins;
	u64 begins[COUNTERS][3];	/* counters at its last release wait */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct job);
} jobs SEC(".maps");

/* The number of a thread in `release_waits` and `jobs`, in two steps, because thread IDs are sparse. Array
 * look-ups are inlined; those of hashes and of task storage are calls. 0 for none. */
enum { PAGE = 64 };
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} job_pages SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u32);
} job_numbers SEC(".maps");

/* The counts of a thread. Only its own switches write the histograms, one at a time, so that no CPU
 * needs its own. All counts only grow, so user space reads them by subtraction. Rows of the time series
 * take turns in the banks. */
enum { BANKS = 4, ELSEWHERE = WAITS };
struct bank {
	u64 row;
	u64 count;
	u64 sum;
	u64 min;		/* in this row */
	u64 max;
};

struct tally {
	u64 writes;		/* odd while the histograms are written */
	u64 incomplete;		/* jobs without a known end or release */
	u64 last;		/* response time of the last job */
	u64 unplaced;		/* waits for which `waits_elsewhere` was full */
	u64 waits[WAITS + 1];	/* in each release wait, and elsewhere */
	u64 waited[WAITS + 1];	/* their total time */
	u64 ran;
	u64 ran_min;
	u64 ran_max;
	struct bank banks[BANKS];
	u32 execution[COUNTED_BUCKETS];
	u32 responses[BANKS * COUNTED_BUCKETS];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct tally);
} tallies SEC(".maps");

/* Where counted threads wait elsewhere. */
struct place_of_wait {
	u64 argument;
	u32 call;
	u32 pid;
};

struct waited {
	u64 count;
	u64 total;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, struct place_of_wait);
	MAP_TYPE(value, struct waited);
} waits_elsewhere SEC(".maps");

/* Bits for threads that woke a watched one, and for threads that woke these. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} wakers SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} their_wakers SEC(".maps");

/* Whether a CPU matters; written by any CPU. */
struct place {
	u64 until;		/* events are recorded until then */
	u64 kept;		/* `last` is not written yet */
	u64 full;		/* the state of the CPU is that of a full stage */
	struct record last;	/* a switch */
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct place);
} places SEC(".maps");

/* In the full stage: since when watched threads sleep, except in release waits. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, ASLEEP);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} asleep SEC(".maps");

/* Set by the loader: threads of this name will be watched; if it is empty, those of any name. */
const volatile u64 wanted_name[2] = {};

/* Set by the loader: user space is told of longer jobs. */
const volatile u64 budget_ns = ~0ULL;

/* Set by the loader if there are performance counters. */
const volatile u32 counting = 0;

/* The performance counters of the CPUs. */
#define CPU_COUNTER(name)                                                                    \
	struct {                                                                             \
		MAP_NUMBER(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);                             \
		MAP_NUMBER(max_entries, 1); /* set by the loader */                          \
		MAP_TYPE(key, u32);                                                          \
		MAP_TYPE(value, u32);                                                        \
	} name SEC(".maps")

CPU_COUNTER(counter_0);
CPU_COUNTER(counter_1);
CPU_COUNTER(counter_2);

struct counts {
	struct bpf_perf_event_value of[COUNTERS];
};

/* The counters while threads ran. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, COUNTED);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct counts);
} sums SEC(".maps");

/* The counters of this CPU when they were last added to the sums of the current thread. */
struct last_counts {
	u32 pid;		/* 0 if the current thread is not watched */
	u32 has;		/* a bit for each counter */
	struct counts counts;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct last_counts);
} last SEC(".maps");

/* Time for which the events of a CPU are recorded after it mattered. */
const volatile u64 matters_ns = 1000000000;

/* When a timer that expires now was due, and until when its thread tolerates a delay. */
struct due {
	u64 since;		/* 0 if no timer expires */
	u64 until;
};

struct cpu {
	struct due timers[2];	/* in an interrupt, and in a softirq */
	u32 softirq_of_timer;	/* pid of the thread in it */
	u32 interrupts;
	u32 softirq_task;	/* pid + 1 */
	u64 here;		/* a place on the current stack */
	u64 stacks_since;
	u32 stacks;		/* user stacks recorded since then */
	u64 interrupts_since;
	u32 interrupt_stacks;	/* recorded since then */
	u64 stack[STACK_WORDS];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

INLINE struct cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

INLINE int has_bit(void *map, u32 pid)
{
	u32 place = pid / 64;
	u64 *bits = bpf_map_lookup_elem(map, &place);

	return bits && pid < pid_limit && *bits >> (pid % 64) & 1;
}

INLINE int is_watched(u32 pid)
{
	return has_bit(&watched, pid);
}

INLINE void set_bit(void *map, u32 pid)
{
	u32 place = pid / 64;
	u64 *bits = bpf_map_lookup_elem(map, &place);

	/* Usually it is set. */
	if (bits && pid < pid_limit && !(*bits >> (pid % 64) & 1))
		__sync_fetch_and_or(bits, 1ULL << (pid % 64));
}

/* Returns whether a thread can be part of a job. The idle thread cannot. */
INLINE int is_concerned(u32 pid)
{
	return pid && (has_bit(&watched, pid) || has_bit(&wakers, pid) ||
		       has_bit(&their_wakers, pid));
}

INLINE void note_waker(u32 woken, u32 by)
{
	struct cpu *cpu = this_cpu();

	/* A thread stopped by an interrupt wakes no other. In a softirq it may: it then handles
	 * its own packets to this machine. */
	if (cpu && cpu->interrupts)
		return;
	if (is_watched(woken))
		set_bit(&wakers, by);
	else if (has_bit(&wakers, woken))
		set_bit(&their_wakers, by);
}

INLINE void touch(u32 cpu, u64 now)
{
	struct place *place = bpf_map_lookup_elem(&places, &cpu);

	/* Write rarely, because other CPUs read it. */
	if (place && place->until < now + matters_ns / 2)
		place->until = now + matters_ns;
}

INLINE int matters(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct place *place = bpf_map_lookup_elem(&places, &cpu);

	return place && place->until > bpf_ktime_get_ns();
}

/* If the ring is full, the reader is late and wakes up anyway. */
static __attribute__((noinline)) int tell(void)
{
	u64 nothing = 0;

	return bpf_ringbuf_output(&news, &nothing, sizeof(nothing), 0);
}

/* Begins a record. Interrupts may write others meanwhile. */
INLINE struct record *reserve_at(u32 kind, u32 *sequence, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct head *head = bpf_map_lookup_elem(&heads, &cpu);
	struct record *record;
	u64 number;
	u32 place;

	if (!head)
		return 0;
	number = __sync_fetch_and_add(&head->begun, 1);
	/* Listed records must be read before they are overwritten. */
	if (UNLIKELY(!(((u32)number + 1) & (ring_mask >> 2))) && head->told != head->listed) {
		head->told = head->listed;
		tell();
	}
	place = cpu * (ring_mask + 1) + ((u32)number & ring_mask);
	record = bpf_map_lookup_elem(&records, &place);
	if (!record)
		return 0;
	*(volatile u32 *)&record->sequence = 0;
	barrier();
	*sequence = (u32)number + 1;
	record->time = now;
	record->kind = kind;
	record->flags = 0;
	return record;
}

INLINE struct record *reserve(u32 kind, u32 *sequence)
{
	return reserve_at(kind, sequence, bpf_ktime_get_ns());
}

INLINE void end(struct record *record, u32 sequence)
{
	barrier();
	*(volatile u32 *)&record->sequence = sequence;
}

/* Lists a finished record; 0 for none. */
INLINE void list(u32 sequence)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct head *head = bpf_map_lookup_elem(&heads, &cpu);
	u64 number, *entry;
	u32 place;

	if (!head || !sequence)
		return;
	number = __sync_fetch_and_add(&head->listed, 1);
	place = cpu * (ring_mask + 1) + ((u32)number & ring_mask);
	entry = bpf_map_lookup_elem(&listed, &place);
	if (entry)
		*(volatile u64 *)entry = (number + 1) << 32 | sequence;
}

INLINE int is_light(void)
{
	u32 place = LIGHT, *is = bpf_map_lookup_elem(&release_calls, &place);

	return is && *is;
}

INLINE int is_release(u32 number)
{
	u32 *is = bpf_map_lookup_elem(&release_calls, &number);

	return is && *is && number != LIGHT;
}

/* Writes the switch that was kept while the CPU did not matter. */
static __attribute__((noinline)) int write_kept(struct place *place)
{
	struct record *record;
	u32 sequence;

	if (!place)
		return 0;
	place->kept = 0;
	record = reserve_at(SWITCH, &sequence, place->last.time);
	if (!record)
		return 0;
	record->part = 0;
	record->of_switch = place->last.of_switch;
	end(record, sequence);
	/* The thread has been watched only since then. */
	if (is_watched(place->last.of_switch.prev_pid) ||
	    is_watched(place->last.of_switch.next_pid))
		list(sequence);
	return 0;
}

INLINE struct record *begin(u32 kind, u32 *sequence)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct place *place = bpf_map_lookup_elem(&places, &cpu);

	if (UNLIKELY(place && place->kept))
		write_kept(place);
	return reserve(kind, sequence);
}

INLINE void note_flags(struct record *record, u32 pid)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return;
	if (cpu->interrupts)
		record->flags = FLAG_HARDIRQ;
	if (cpu->softirq_task == pid + 1)
		record->flags |= FLAG_SOFTIRQ;
}

/* Returns the number for `list`; 0 if the record was not written. */
INLINE u32 put(u32 kind, u32 number, u64 one, u64 two)
{
	u32 sequence, pid = bpf_get_current_pid_tgid();
	struct record *record = begin(kind, &sequence);

	if (!record)
		return 0;
	note_flags(record, pid);
	record->other.pid = pid;
	record->other.number = number;
	record->other.one = one;
	record->other.two = two;
	end(record, sequence);
	return sequence;
}

/* Copies the name of a thread. Two loads are faster than a helper. */
INLINE void copy_name(char *to, const struct task_struct *task)
{
	u64 *from = (u64 *)__builtin_preserve_access_index(&task->comm);

	((u64 *)to)[0] = from[0];
	((u64 *)to)[1] = from[1];
}

/* A record about another thread: `text` is its name and `three`, `one` its ID and priority. */
INLINE u32 put_task(u32 kind, const struct task_struct *task, u32 number, u64 two, u64 three)
{
	u32 sequence, pid = bpf_get_current_pid_tgid();
	struct record *record = begin(kind, &sequence);

	if (!record)
		return 0;
	note_flags(record, pid);
	record->part = 0;
	record->other.pid = pid;
	record->other.number = number;
	record->other.one = (u32)task->pid | (u64)(u32)task->prio << 32;
	record->other.two = two;
	copy_name(record->other.text, task);
	*(u64 *)&record->other.text[16] = three;
	end(record, sequence);
	return sequence;
}

INLINE u32 cpu_of(const struct task_struct *task)
{
	if (HAS(task_struct___info, thread_info.cpu))
		return ((struct task_struct___info *)task)->thread_info.cpu;
	if (HAS(task_struct___cpu, cpu))
		return ((struct task_struct___cpu *)task)->cpu;
	return ~0;
}

/* As shown by the tracepoint (__trace_sched_switch_state). */
INLINE u32 state_of(const struct task_struct *task, u64 preempted)
{
	u32 state, shown;

	if (preempted)
		return 0;
	if (HAS(task_struct___new, __state))
		state = ((struct task_struct___new *)task)->__state;
	else
		state = ((struct task_struct___old *)task)->state;
	if (!state)
		return 0;
	if (state & 0x80 || ((struct task_struct___exit *)task)->exit_state)
		return 0x20;
	shown = state & 0x7f;
	return shown ? shown : 2;
}

/* Writes the first words of `cpu->stack`, in several records. */
INLINE void put_words(struct cpu *cpu, u32 kind, u32 count)
{
	struct record *record;
	u32 sequence;

	for (u32 part = 0; part < STACK_WORDS / FRAMES_OF_RECORD; part++) {
		if (part * FRAMES_OF_RECORD >= count)
			break;
		record = begin(kind, &sequence);
		if (!record)
			break;
		record->part = part;
		record->count = count - part * FRAMES_OF_RECORD;
		for (u32 i = 0; i < FRAMES_OF_RECORD; i++)
			record->frames[i] = cpu->stack[part * FRAMES_OF_RECORD + i];
		end(record, sequence);
	}
}

/* Writes where the current thread is in the kernel. */
static __attribute__((noinline)) int put_stack(u64 *arguments, u32 kind)
{
	struct cpu *cpu = this_cpu();
	long bytes;

	if (!cpu)
		return 0;
	bytes = bpf_get_stack(arguments, cpu->stack, FRAMES * sizeof(u64), 0);
	if (bytes > 0)
		put_words(cpu, kind, bytes / sizeof(u64));
	return 0;
}

/* Writes what the interrupt or softirq does that wakes a thread. */
static __attribute__((noinline)) int put_interrupt(u64 *arguments)
{
	struct cpu *cpu = this_cpu();
	u64 now = bpf_ktime_get_ns();
	long bytes;

	if (!cpu)
		return 0;
	if (now - cpu->interrupts_since > STACKS_NS) {
		cpu->interrupts_since = now;
		cpu->interrupt_stacks = 0;
	}
	if (cpu->interrupt_stacks++ >= USER_STACKS)
		return 0;
	bytes = bpf_get_stack(arguments, cpu->stack, FRAMES_OF_INTERRUPT * sizeof(u64), 0);
	if (bytes > 0)
		put_words(cpu, INTERRUPT_STACK, bytes / sizeof(u64));
	return 0;
}

/* Writes where the current thread is in user space, and the top of its stack. */
static __attribute__((noinline)) int put_user_stack(u64 *arguments, u32 kind)
{
	u32 number = bpf_get_smp_processor_id();
	struct head *head = bpf_map_lookup_elem(&heads, &number);
	void *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	struct cpu *cpu = this_cpu();
	u64 now = bpf_ktime_get_ns();
	long bytes;

	if (!cpu)
		return 0;
	if (now - cpu->stacks_since > STACKS_NS) {
		cpu->stacks_since = now;
		cpu->stacks = 0;
	}
	if (cpu->stacks >= USER_STACKS) {
		if (head)
			head->stacks_dropped++;
		return 0;
	}
	cpu->stacks++;
	bytes = bpf_get_stack(arguments, cpu->stack, FRAMES * sizeof(u64), BPF_F_USER_STACK);
	/* Kernel threads have none. */
	if (bytes <= 0)
		return 0;
	put_words(cpu, kind, bytes / sizeof(u64));
	bytes = bpf_probe_read_user(cpu->stack, sizeof(cpu->stack), (void *)stack_pointer(regs));
	if (bytes)
		return 0;
	/* The caller of a leaf function on arm64. */
	if (HAS(pt_regs___arm64, regs))
		cpu->stack[0] = ((struct pt_regs___arm64 *)regs)->regs[30];
	put_words(cpu, kind + 1, STACK_WORDS);
	return 0;
}

#define READ_COUNTER(number, to)                                                             \
	(!bpf_perf_event_read_value(&counter_##number, BPF_F_CURRENT_CPU, to, sizeof(*(to)))  \
	 << number)

/* Reads the counters of this CPU. Returns a bit for each that was read. */
INLINE u32 read_counters(struct counts *counts)
{
	return READ_COUNTER(0, &counts->of[0]) | READ_COUNTER(1, &counts->of[1]) |
	       READ_COUNTER(2, &counts->of[2]);
}

/* Begins to count for a thread that gets this CPU. */
static __attribute__((noinline)) int begin_counting(u32 pid)
{
	u32 zero = 0;
	struct last_counts *at = bpf_map_lookup_elem(&last, &zero);

	if (at) {
		at->pid = pid;
		at->has = read_counters(&at->counts);
	}
	return 0;
}

INLINE void list_counter(u32 pid, u32 counter, u64 time, u64 value, u64 enabled, u64 running)
{
	u32 sequence;
	struct record *record = reserve_at(COUNTER, &sequence, time);

	if (!record)
		return;
	record->frames[0] = pid | (u64)counter << 32;
	record->frames[1] = value;
	record->frames[2] = enabled;
	record->frames[3] = running;
	end(record, sequence);
	list(sequence);
}

/* Adds the counters since the last reading to the sums of a watched thread, the current one, and
 * lists them if `listed_too`. Their time is that of the next record, which they come before. */
static __attribute__((noinline)) int put_counters(u32 pid, u64 now, int listed_too)
{
	u32 zero = 0, has;
	struct last_counts *at = bpf_map_lookup_elem(&last, &zero);
	struct counts counts = {}, *sum = bpf_map_lookup_elem(&sums, &pid);
	struct task_struct___exit *task = (void *)bpf_get_current_task_btf();

	if (!at)
		return 0;
	if (!sum) {
		if (task->flags & PF_EXITING)
			return 0;
		bpf_map_update_elem(&sums, &pid, &counts, 0);
		sum = bpf_map_lookup_elem(&sums, &pid);
		if (!sum)
			return 0;
	}
	has = read_counters(&counts);
	for (u32 i = 0; i < COUNTERS; i++) {
		if (!(has >> i & 1))
			continue;
		if (at->pid == pid && at->has >> i & 1) {
			sum->of[i].counter += counts.of[i].counter - at->counts.of[i].counter;
			sum->of[i].enabled += counts.of[i].enabled - at->counts.of[i].enabled;
			sum->of[i].running += counts.of[i].running - at->counts.of[i].running;
		} else {
			/* The thread got the CPU before it was watched. */
			sum->of[i].enabled += HOLE;
		}
		if (listed_too)
			list_counter(pid, i, now, sum->of[i].counter, sum->of[i].enabled,
				     sum->of[i].running);
	}
	at->pid = pid;
	at->has = has;
	at->counts = counts;
	return 0;
}

/* Adds the counters of a watched thread that loses this CPU, without a record. */
static __attribute__((noinline)) int end_counting(u32 pid)
{
	u32 zero = 0, has = 0;
	struct last_counts *at = bpf_map_lookup_elem(&last, &zero);
	struct counts counts = {}, *sum = bpf_map_lookup_elem(&sums, &pid);

	if (!at)
		return 0;
	if (at->pid == pid)
		has = at->has & read_counters(&counts);
	at->pid = 0;
	if (!sum)
		return 0;
	for (u32 i = 0; i < COUNTERS; i++) {
		if (!(has >> i & 1)) {
			sum->of[i].enabled += HOLE;
			continue;
		}
		sum->of[i].counter += counts.of[i].counter - at->counts.of[i].counter;
		sum->of[i].enabled += counts.of[i].enabled - at->counts.of[i].enabled;
		sum->of[i].running += counts.of[i].running - at->counts.of[i].running;
	}
	return 0;
}

/* Counts for the watched ones of two threads at a switch. `put_sleeping` has written the counters
 * of a thread that ends its work. */
INLINE void switch_counters(u32 prev, int left, u32 next, int came)
{
	if (!counting)
		return;
	if (left)
		end_counting(prev);
	if (came)
		begin_counting(next);
}

/* Returns the number of a thread in `release_waits` and `jobs`; 0 if it has none. */
INLINE u32 job_number(u32 pid)
{
	u32 place = pid / PAGE, *page = bpf_map_lookup_elem(&job_pages, &place), *number;

	if (!page || !*page)
		return 0;
	place = *page * PAGE + pid % PAGE;
	number = bpf_map_lookup_elem(&job_numbers, &place);
	return number ? *number : 0;
}

INLINE struct job *job_of(u32 pid)
{
	u32 number = job_number(pid);

	return number ? bpf_map_lookup_elem(&jobs, &number) : 0;
}

/* Returns the job of a thread while it is counted. */
INLINE struct job *counted_job(u32 pid)
{
	struct job *job = job_of(pid);

	return job && job->counted ? job : 0;
}

/* Ends the job of a thread that is not counted and begins to wait. */
INLINE void note_wait(struct job *job, u32 number, u64 now)
{
	job->wait = number;
	if (!number)
		return;
	if (UNLIKELY(job->released && now - job->released > budget_ns))
		tell();
	job->released = 0;
}

INLINE struct tally *tally_of(const struct job *job)
{
	u32 number = job->counted - 1;

	return bpf_map_lookup_elem(&tallies, &number);
}

/* Counts the time of a sleep that is not a release wait. */
static __attribute__((noinline)) int count_elsewhere(struct job *job, struct tally *tally,
						     u32 pid, u64 slept)
{
	struct place_of_wait place = {};
	struct waited fresh = { 1, slept }, *known;

	if (!job || !tally)
		return 0;
	place.argument = job->argument;
	place.call = job->call;
	place.pid = pid;
	known = bpf_map_lookup_elem(&waits_elsewhere, &place);
	if (known) {
		known->count++;
		known->total += slept;
	} else if (bpf_map_update_elem(&waits_elsewhere, &place, &fresh, 0)) {
		tally->unplaced++;
	}
	return 0;
}

/* Counts a job. Its length is below COUNTED_NS. */
static __attribute__((noinline)) int count_job(const struct waits *waits, struct job *job,
					       struct tally *tally, u64 response)
{
	u64 ran;
	u32 place, run;
	struct bank *bank;

	if (!waits || !job || !tally)
		return 0;
	ran = job->ran < response ? job->ran : response;
	if (job->released - job->row_begins >= waits->row_length) {
		job->row = (job->released - waits->origin) / waits->row_length;
		job->row_begins = waits->origin + job->row * waits->row_length;
	}
	place = bucket_of(response), run = bucket_of(ran);
	if (place >= COUNTED_BUCKETS || run >= COUNTED_BUCKETS)
		return 0;
	bank = &tally->banks[job->row % BANKS];
	place += job->row % BANKS * COUNTED_BUCKETS;
	if (place >= BANKS * COUNTED_BUCKETS)
		return 0;
	*(volatile u64 *)&tally->writes += 1;
	barrier();
	if (bank->row != job->row || !bank->count) {
		bank->row = job->row;
		bank->min = ~0ULL;
		bank->max = 0;
	}
	bank->count++;
	bank->sum += response;
	if (response < bank->min)
		bank->min = response;
	if (response > bank->max)
		bank->max = response;
	tally->responses[place]++;
	if (!tally->ran_max || ran < tally->ran_min)
		tally->ran_min = ran;
	if (ran > tally->ran_max)
		tally->ran_max = ran;
	tally->ran += ran;
	tally->execution[run]++;
	tally->last = response;
	barrier();
	*(volatile u64 *)&tally->writes += 1;
	return 0;
}

/* Lists the counters at the beginning and the end of a job. */
static __attribute__((noinline)) int list_counters(struct job *job, u32 pid, u64 now)
{
	struct counts *sum = bpf_map_lookup_elem(&sums, &pid);

	if (!job || !sum)
		return 0;
	for (u32 i = 0; i < COUNTERS; i++)
		list_counter(pid, i, job->released, job->begins[i][0], job->begins[i][1],
			     job->begins[i][2]);
	for (u32 i = 0; i < COUNTERS; i++)
		list_counter(pid, i, now, sum->of[i].counter, sum->of[i].enabled,
			     sum->of[i].running);
	return 0;
}

/* Lists a job of a counted thread. */
static __attribute__((noinline)) int list_job(struct job *job, const struct task_struct *task,
					      u64 now)
{
	struct record *record;
	u32 sequence, pid;

	if (!job)
		return 0;
	pid = task->pid;
	if (counting)
		list_counters(job, pid, now);
	record = reserve_at(JOB, &sequence, now);
	if (!record)
		return 0;
	record->other.pid = pid;
	record->other.number = task->prio;
	record->other.one = job->released;
	record->other.two = job->ran;
	copy_name(record->other.text, task);
	end(record, sequence);
	list(sequence);
	if (now - job->released > budget_ns)
		tell();
	return 0;
}

/* Notes the counters at which the next job begins. */
static __attribute__((noinline)) int note_counters(struct job *job, u32 pid)
{
	struct counts *sum = bpf_map_lookup_elem(&sums, &pid);

	if (!job || !sum)
		return 0;
	for (u32 i = 0; i < COUNTERS; i++) {
		job->begins[i][0] = sum->of[i].counter;
		job->begins[i][1] = sum->of[i].enabled;
		job->begins[i][2] = sum->of[i].running;
	}
	return 0;
}

/* Notes that a counted thread begins to sleep, and ends its job if this is a release wait. */
INLINE void count_sleep(const struct waits *waits, struct job *job, struct task_struct *prev,
			u32 call, u64 argument, u64 now)
{
	u64 response = now - job->released;
	struct tally *tally = tally_of(job);

	/* Some kernels do not trace every switch and wake-up. */
	if (UNLIKELY(job->slept && tally))
		tally->incomplete++;
	job->slept = 0;
	job->call = call;
	job->argument = argument;
	/* A signal interrupted the release wait, which continues. */
	if (call == (HAS(pt_regs___x86, orig_ax) ? 219 : 128) && job->last_wait) {
		job->wait = job->last_wait;
		job->released = 0;
		goto sleeps;
	}
	job->wait = job->last_wait = release_number(&waits->on, call, argument);
	if (!job->wait)
		goto sleeps;
	if (job->released) {
		if (UNLIKELY(!tally || response > waits->list_above || response >= COUNTED_NS))
			list_job(job, prev, now);
		else
			count_job(waits, job, tally, response);
	}
	job->released = 0;
	if (counting)
		note_counters(job, prev->pid);
sleeps:
	/* A wake-up on another CPU at the same time needs the rest. */
	barrier();
	*(volatile u64 *)&job->slept = now;
}

/* Notes the end of a sleep of a counted thread, which was due at a time. Returns whether the sleep was a
 * part of a job. */
INLINE int count_wake(struct job *job, u32 pid, u64 due, u64 now)
{
	struct tally *tally = tally_of(job);
	u64 since = *(volatile u64 *)&job->slept, slept;
	u32 wait;

	if (!since) {
		job->woken = now;
		return job->released != 0;
	}
	barrier();
	wait = job->wait;
	slept = now - since;
	job->slept = 0;
	if (tally && wait && wait <= WAITS) {
		tally->waits[wait - 1]++;
		tally->waited[wait - 1] += slept;
	} else if (tally) {
		tally->waits[ELSEWHERE]++;
		tally->waited[ELSEWHERE] += slept;
		count_elsewhere(job, tally, pid, slept);
	}
	if (!wait)
		return job->released != 0;
	job->wait = 0;
	job->released = due > since ? due : since;
	job->ran = 0;
	return 0;
}

/* Notes that a counted thread gets a CPU. */
INLINE void count_run(struct job *job, u32 pid, u64 now)
{
	struct tally *tally;

	job->running = now;
	if (UNLIKELY(job->slept)) {
		/* Another CPU woke it just before this one noted its sleep, or no event shows its
		 * wake-up. */
		if (job->woken) {
			count_wake(job, pid, job->slept, job->slept);
		} else {
			tally = tally_of(job);
			if (job->wait && tally)
				tally->incomplete++;
			job->slept = job->wait = 0;
		}
	}
	job->woken = 0;
}

INLINE void count_stop(struct job *job, u64 now)
{
	if (job->running)
		job->ran += now - job->running;
	job->running = 0;
}

/* From now on, the records of a thread are listed again, from its job in progress on. */
static __attribute__((noinline)) int return_job(struct job *job, u32 pid, u64 now)
{
	struct record *record;
	u32 sequence;

	if (!job)
		return 0;
	job->counted = 0;
	count_stop(job, now);
	record = reserve_at(RETURNED, &sequence, now);
	if (!record)
		return 0;
	record->other.pid = pid;
	record->other.one = job->released;
	record->other.two = job->ran;
	end(record, sequence);
	list(sequence);
	return 0;
}

/* Counts the jobs of a thread from now on, when it begins its release wait. Returns whether it does. */
static __attribute__((noinline)) int take_job(const struct waits *waits, struct job *job,
					      const struct task_struct *task, u64 now)
{
	struct record *record;
	u32 sequence;

	if (!waits || !job)
		return 0;
	record = reserve_at(TAKEN, &sequence, now);
	if (!record)
		return 0;
	record->other.pid = task->pid;
	job->prio = task->prio;
	end(record, sequence);
	list(sequence);
	job->counted = waits->wanted;
	job->last_wait = job->wait;
	job->released = job->ran = job->running = job->woken = 0;
	/* The next job is in another row. */
	job->row_begins = ~0ULL / 2;
	if (counting)
		note_counters(job, task->pid);
	barrier();
	*(volatile u64 *)&job->slept = now;
	return 1;
}

/* Lists the system call, with its arguments, in which a watched thread begins to sleep. The
 * number is ~0 if it sleeps outside of system calls, in a page fault. */
INLINE u32 put_sleep_call(struct task_struct *prev, u64 now, const struct waits *waits,
			  struct job *job)
{
	void *regs = (void *)bpf_task_pt_regs(prev);
	u32 sequence, call = call_in(regs);
	struct record *record;
	u64 one, two;

	read_arguments(regs, &one, &two);
	if (waits && job)
		note_wait(job, release_number(&waits->on, call, one), now);
	if (counting)
		put_counters(prev->pid, now, 1);
	record = begin(SLEEP, &sequence);
	if (!record)
		return 0;
	record->time = now;
	record->other.pid = prev->pid;
	record->other.number = call;
	record->other.one = one;
	record->other.two = two;
	end(record, sequence);
	list(sequence);
	return sequence;
}

/* Returns whether a watched thread ends a part of its work: by a sleep, or by giving up the rest
 * of its SCHED_DEADLINE runtime in sched_yield(2). */
INLINE int ends_work(struct task_struct *prev, u32 state)
{
	u32 yield = HAS(pt_regs___x86, orig_ax) ? 24 : 124;

	return state & 3 || (!state && prev->prio < 0 && call_of(prev) == yield);
}

/* Begins the job of a thread that is not counted and whose wait ends. Returns whether the wait was a
 * part of a job. */
INLINE int note_release(struct job *job, u64 due)
{
	if (!job->wait)
		return job->released != 0;
	job->wait = 0;
	job->released = due;
	return 0;
}

/* Notes the end of a wait, which was due at a time. Returns whether the wait was a part of a job. */
INLINE int note_wake(struct job *job, u32 pid, u64 due, u64 now)
{
	if (!job)
		return 0;
	return job->counted ? count_wake(job, pid, due, now) : note_release(job, due);
}

/* Returns whether the records of a thread must be listed again: user space wants it, the thread has
 * lost its priority, or it got the policy SCHED_DEADLINE, whose jobs begin without a wake-up. */
INLINE int must_return(const struct waits *waits, const struct job *job,
		       const struct task_struct *task)
{
	int prio = task->prio;

	return !waits->wanted || prio < 0 || prio > (int)job->prio;
}

/* The call in which a counted thread begins to sleep, if it does. */
struct asleep_in {
	u64 one;
	u32 call;
	u32 two;
	u32 sleeps;
};

/* User space knows the name of a counted thread from other records. */
INLINE void fill_switch(struct record *record, const struct task_struct *prev,
			const struct task_struct *next, u32 state, const struct asleep_in *in)
{
	record->part = in->sleeps;
	record->of_switch.prev_pid = prev->pid;
	record->of_switch.prev_prio = prev->prio;
	record->of_switch.prev_state = state;
	record->of_switch.next_pid = next->pid;
	record->of_switch.next_prio = next->prio;
	if (in->sleeps) {
		record->of_switch.one = in->one;
		record->of_switch.call = in->call;
		record->of_switch.two = in->two;
	} else {
		copy_name(record->of_switch.prev_comm, prev);
	}
	copy_name(record->of_switch.next_comm, next);
}

/* A watched thread loses this CPU. Returns whether the switch must be listed. */
INLINE int leave(struct task_struct *prev, u32 state, u64 now, struct asleep_in *in, int light)
{
	u32 pid = prev->pid, number = job_number(pid), call;
	struct waits *waits = number ? bpf_map_lookup_elem(&release_waits, &number) : 0;
	struct job *job = number ? bpf_map_lookup_elem(&jobs, &number) : 0;
	int ends = ends_work(prev, state);
	u64 one, two;
	void *regs;

	if (waits && job && job->counted) {
		if (LIKELY(!must_return(waits, job, prev))) {
			count_stop(job, now);
			if (!ends)
				return 0;
			regs = (void *)bpf_task_pt_regs(prev);
			call = call_in(regs);
			read_arguments(regs, &one, &two);
			if (counting)
				put_counters(pid, now, 0);
			count_sleep(waits, job, prev, call, one, now);
			in->sleeps = 1;
			in->one = one;
			in->call = call;
			in->two = two;
			return 0;
		}
		return_job(job, pid, now);
	}
	if (!ends || !put_sleep_call(prev, now, waits, job))
		return 1;
	if (!light || !waits || !job || !waits->wanted || !job->wait || prev->prio < 0)
		return 1;
	return !take_job(waits, job, prev, now);
}

/* A watched thread gets this CPU. Returns whether the switch must be listed. */
INLINE int come(struct task_struct *next, u64 now)
{
	u32 number = job_number(next->pid);
	struct waits *waits = number ? bpf_map_lookup_elem(&release_waits, &number) : 0;
	struct job *job = number ? bpf_map_lookup_elem(&jobs, &number) : 0;

	if (!waits || !job)
		return 1;
	/* No event shows the end of a wait for the next period of SCHED_DEADLINE. */
	if (next->prio < 0)
		note_wake(job, next->pid, now, now);
	if (!job->counted)
		return 1;
	if (must_return(waits, job, next)) {
		return_job(job, next->pid, now);
		return 1;
	}
	count_run(job, next->pid, now);
	return 0;
}

INLINE int switching_light(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	struct task_struct *next = (struct task_struct *)arguments[2];
	u32 own = bpf_get_smp_processor_id(), sequence, state;
	struct place *place = bpf_map_lookup_elem(&places, &own);
	int left = is_watched(prev->pid), came = is_watched(next->pid), listed_one = 0;
	struct asleep_in in = {};
	struct record *record;
	u64 now;

	if (!place)
		return 0;
	if (UNLIKELY(place->full)) {
		struct cpu *cpu = this_cpu();

		/* The state of the CPU is unknown from here on. */
		place->full = place->kept = place->until = 0;
		if (cpu)
			cpu->interrupts = cpu->softirq_task = 0;
	}
	if (!left && !came && !place->until)
		return 0;
	now = bpf_ktime_get_ns();
	if (!left && !came && place->until < now) {
		place->until = 0;
		return 0;
	}
	state = state_of(prev, arguments[0]);
	if (left)
		listed_one = leave(prev, state, now, &in, 1);
	if (came)
		listed_one |= come(next, now);
	switch_counters(prev->pid, left, next->pid, came);
	record = reserve_at(SWITCH, &sequence, now);
	if (!record)
		return 0;
	fill_switch(record, prev, next, state, &in);
	end(record, sequence);
	if (listed_one)
		list(sequence);
	/* An idle CPU has no thread that waits for it. */
	if (!next->pid)
		place->until = 0;
	else if (left && !state)
		place->until = now + matters_ns;
	return 0;
}

SEC("tp_btf/sched_switch")
int switching(u64 *arguments)
{
	struct task_struct *prev = (struct task_struct *)arguments[1];
	struct task_struct *next = (struct task_struct *)arguments[2];
	u32 state, prev_pid = prev->pid, next_pid = next->pid;
	u32 sequence = 0;
	u32 own = bpf_get_smp_processor_id();
	struct asleep_in in = {};
	struct place *place;
	struct cpu *cpu;
	struct record *record;
	int kept = 0, left, came, listed_one = 0;
	u64 now;

	if (is_light())
		return switching_light(arguments);
	place = bpf_map_lookup_elem(&places, &own);
	cpu = this_cpu();
	now = bpf_ktime_get_ns();
	/* No interrupt is active here, even if its end was not seen. */
	if (cpu)
		cpu->interrupts = 0;
	state = state_of(prev, arguments[0]);
	if (is_concerned(prev_pid) || is_concerned(next_pid))
		touch(own, now);
	if (!place)
		return 0;
	if (!place->full)
		place->full = 1;
	left = is_watched(prev_pid), came = is_watched(next_pid);
	if (left)
		listed_one = leave(prev, state, now, &in, 0);
	if (came)
		listed_one |= come(next, now);
	switch_counters(prev_pid, left, next_pid, came);
	if (place->until > now) {
		record = begin(SWITCH, &sequence);
	} else {
		record = &place->last;
		kept = 1;
	}
	if (!record)
		return 0;
	record->time = now;
	fill_switch(record, prev, next, state, &in);
	if (kept) {
		place->kept = 1;
		return 0;
	}
	end(record, sequence);
	if (listed_one)
		list(sequence);
	if (!left || !(state & 3))
		return 0;
	if (is_release(call_of(prev)))
		return 0;
	put_stack(arguments, STACK);
	put_user_stack(arguments, USER_STACK);
	bpf_map_update_elem(&asleep, &prev_pid, &now, 0);
	return 0;
}

INLINE u64 *here(void)
{
	struct cpu *cpu = this_cpu();

	return cpu ? &cpu->here : 0;
}

/* Reads when the timer was due that wakes a thread now. `since` is 0 if none does. */
INLINE void read_due(const struct task_struct *task, struct due *due, u64 now)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return;
	/* On PREEMPT_RT, another thread can run before the softirq ends. */
	if (cpu->timers[0].since)
		*due = cpu->timers[0];
	else if (cpu->timers[1].since &&
		 cpu->softirq_of_timer == (u32)bpf_get_current_pid_tgid())
		*due = cpu->timers[1];
	if (due->since >= now)
		due->since = 0;
	if (!due->since)
		return;
	/* The timeouts of poll, select and epoll tolerate a delay of a thousandth of their length, which
	 * does not count. */
	if (HAS(task_struct___slack, timer_slack_ns) &&
	    due->until - due->since > ((struct task_struct___slack *)task)->timer_slack_ns)
		due->since = due->until < now ? due->until : 0;
}

/* `in_job`: whether the name of the waker explains a part of a job. */
INLINE u32 put_light_waking(struct task_struct *task, u32 on, int by_thread, int in_job,
			    const struct due *due, u64 now)
{
	u32 sequence, pid = bpf_get_current_pid_tgid();
	struct record *record = reserve_at(WAKING, &sequence, now);
	u64 name[2] = {};

	if (!record)
		return 0;
	/* Without the name, the record has the timer. */
	if (by_thread && in_job)
		bpf_get_current_comm(name, sizeof(name));
	else
		name[0] = due->since, name[1] = due->until;
	/* Which of the two is unknown. */
	record->flags = by_thread ? 0 : FLAG_HARDIRQ | FLAG_SOFTIRQ;
	record->part = by_thread && in_job;
	record->other.pid = pid;
	record->other.number = on;
	record->other.one = (u32)task->pid | (u64)(u32)task->prio << 32;
	record->other.two = name[0];
	copy_name(record->other.text, task);
	*(u64 *)&record->other.text[16] = name[1];
	end(record, sequence);
	return sequence;
}

/* Writes where a thread is that ends a sleep of a watched one. */
INLINE void put_waker(u64 *arguments, u32 woken, u64 now)
{
	u64 *since = bpf_map_lookup_elem(&asleep, &woken);
	u64 slept;

	if (!since)
		return;
	slept = now - *since;
	bpf_map_delete_elem(&asleep, &woken);
	if (slept < WAKER_NS || !is_on_task_stack(arguments, here()))
		return;
	put_stack(arguments, WAKER_STACK);
	put_user_stack(arguments, WAKER_USER_STACK);
}

SEC("tp_btf/sched_waking")
int waking(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u32 pid = task->pid, by = bpf_get_current_pid_tgid(), on = cpu_of(task);
	int watched_one = is_watched(pid), by_thread, in_job;
	struct due due = {};
	struct job *job;
	u32 sequence;
	u64 now;

	if (is_light()) {
		if (!watched_one)
			return 0;
		now = bpf_ktime_get_ns();
		touch(on, now);
		job = job_of(pid);
		read_due(task, &due, now);
		in_job = note_wake(job, pid, due.since ? due.since : now, now);
		by_thread = !due.since && is_on_task_stack(arguments, here());
		sequence = put_light_waking(task, on, by_thread, in_job, &due, now);
		if (!job || !job->counted)
			list(sequence);
		if (in_job && !by_thread && !due.since)
			put_interrupt(arguments);
		return 0;
	}
	now = bpf_ktime_get_ns();
	note_waker(pid, by);
	job = watched_one ? job_of(pid) : 0;
	if (watched_one)
		read_due(task, &due, now);
	note_wake(job, pid, due.since ? due.since : now, now);
	if (is_concerned(pid)) {
		touch(bpf_get_smp_processor_id(), now);
		touch(on, now);
	}
	if (!matters())
		return 0;
	sequence = put_task(WAKING, task, on, due.since, due.until);
	if (watched_one && (!job || !job->counted))
		list(sequence);
	if (watched_one)
		put_waker(arguments, pid, now);
	return 0;
}

/* Timers wake threads between these two events. An interrupt's timer can come between those of a
 * softirq's. */
SEC("tp_btf/hrtimer_expire_entry")
int timer_begins(u64 *arguments)
{
	struct hrtimer___due *timer = (struct hrtimer___due *)arguments[0];
	struct cpu *cpu = this_cpu();
	u64 since, until, offset;

	if (!cpu)
		return 0;
	offset = timer->base->offset;
	since = timer->_softexpires - offset;
	until = timer->node.expires - offset;
	if (timer->is_soft) {
		cpu->softirq_of_timer = bpf_get_current_pid_tgid();
		cpu->timers[1].until = until;
		cpu->timers[1].since = since;
	} else {
		cpu->timers[0].until = until;
		cpu->timers[0].since = since;
	}
	return 0;
}

/* The timer itself may be gone by now. */
SEC("tp_btf/hrtimer_expire_exit")
int timer_ends(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (cpu->timers[0].since)
		cpu->timers[0].since = 0;
	else
		cpu->timers[1].since = 0;
	return 0;
}

/* A new thread is not woken; this is its first event. */
SEC("tp_btf/sched_process_fork")
int forking(u64 *arguments)
{
	struct task_struct *parent = (struct task_struct *)arguments[0];
	struct task_struct *child = (struct task_struct *)arguments[1];

	if (!is_watched(parent->pid))
		return 0;
	list(put_task(FORK, child, child->tgid == parent->tgid, 0, 0));
	tell();
	return 0;
}

SEC("tp_btf/sched_process_exec")
int executing(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	if (!is_watched(task->pid))
		return 0;
	list(put_task(EXEC, task, 0, 0, 0));
	tell();
	return 0;
}

INLINE void count_join(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct head *head = bpf_map_lookup_elem(&heads, &cpu);

	if (head)
		head->joins++;
}

/* A thread gets a name, for example that of a program that it executes. */
SEC("tp_btf/task_rename")
int renaming(u64 *arguments)
{
	u64 name[2] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), (void *)arguments[1]);
	if (!wanted_name[0] || (name[0] == wanted_name[0] && name[1] == wanted_name[1]))
		count_join();
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int joining(u64 *arguments)
{
	count_join();
	return 0;
}

/* Forgets the job of a thread that ends. */
static __attribute__((noinline)) int end_job(u32 pid)
{
	u32 place = pid / PAGE, *page = bpf_map_lookup_elem(&job_pages, &place), *number;
	struct tally *tally;
	struct job *job = job_of(pid);

	if (!job || !page)
		return 0;
	if (job->counted) {
		tally = tally_of(job);
		if (tally && job->released)
			tally->incomplete++;
		job->counted = job->released = 0;
	}
	place = *page * PAGE + pid % PAGE;
	number = bpf_map_lookup_elem(&job_numbers, &place);
	if (number)
		*number = 0;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int exiting(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	u32 pid = task->pid;

	/* A thread that was killed in its sleep in the light stage has an entry. */
	bpf_map_delete_elem(&asleep, &pid);
	if (counting)
		bpf_map_delete_elem(&sums, &pid);
	if (is_watched(pid)) {
		end_job(pid);
		list(put_task(PROCESS_EXIT, task, 0, 0, 0));
		tell();
	} else if (!is_light() && (matters() || is_concerned(pid))) {
		put_task(PROCESS_EXIT, task, 0, 0, 0);
	}
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int migrating(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];

	if (is_light()) {
		if (!is_watched(task->pid))
			return 0;
		touch(arguments[1], bpf_ktime_get_ns());
		put_task(MIGRATE, task, cpu_of(task), arguments[1], 0);
		return 0;
	}
	if (is_concerned(task->pid)) {
		touch(bpf_get_smp_processor_id(), bpf_ktime_get_ns());
		touch(arguments[1], bpf_ktime_get_ns());
	}
	if (matters())
		put_task(MIGRATE, task, cpu_of(task), arguments[1], 0);
	return 0;
}

SEC("tp_btf/sched_pi_setprio")
int inheriting(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	struct task_struct *donor = (struct task_struct *)arguments[1];
	int priority = ((struct task_struct___exit *)task)->normal_prio;

	if (is_light() ? !is_watched(task->pid) : !matters() && !is_concerned(task->pid))
		return 0;
	if (donor && donor->prio < priority)
		priority = donor->prio;
	put_task(PI_SETPRIO, task, 0, (u32)priority, 0);
	return 0;
}

/* Returns whether a system call is a release wait of a thread whose jobs are counted. */
INLINE int is_counted_wait(u32 pid, u32 call)
{
	u32 number = job_number(pid);
	struct waits *waits = number ? bpf_map_lookup_elem(&release_waits, &number) : 0;
	struct job *job = number ? bpf_map_lookup_elem(&jobs, &number) : 0;

	if (!waits || !job || !job->counted)
		return 0;
	for (u32 i = 0; i < WAITS; i++)
		if (waits->on.calls[i] == call)
			return 1;
	return 0;
}

/* Lists a record of a system call if it may begin or end a job. */
INLINE void list_call(u32 pid, u32 number, u32 sequence)
{
	if (has_bit(&learning, pid) || (is_release(number) && !is_counted_wait(pid, number)))
		list(sequence);
}

struct timespec {
	u64 seconds;
	u64 nanoseconds;
};

/* Writes until when a thread sleeps. Other clocks than CLOCK_MONOTONIC may be set. */
static __attribute__((noinline)) int put_sleep(u32 pid, u32 number, u64 clock, u64 flags,
					       u64 until)
{
	struct timespec time = {};
	u64 ns;

	if (clock > CLOCK_MONOTONIC || (clock != CLOCK_MONOTONIC && flags & TIMER_ABSTIME))
		return 0;
	if (bpf_probe_read_user(&time, sizeof(time), (void *)until))
		return 0;
	if (time.seconds >= 1ULL << 32 || time.nanoseconds >= 1000000000)
		return 0;
	ns = time.seconds * 1000000000 + time.nanoseconds;
	if (!(flags & TIMER_ABSTIME))
		ns += bpf_ktime_get_ns();
	list_call(pid, number, put(SLEEP_UNTIL, 0, ns, 0));
	return 0;
}

/* Writes which thread owns a futex with priority inheritance. The futex has the thread's ID
 * in its own PID namespace. */
static __attribute__((noinline)) int put_owner(u64 futex)
{
	struct task_struct___pid *task = (void *)bpf_get_current_task_btf();
	u32 word = 0;

	if (task->thread_pid->level ||
	    bpf_probe_read_user(&word, sizeof(word), (void *)futex))
		return 0;
	if (word & FUTEX_TID_MASK)
		put(FUTEX_OWNER, word & FUTEX_TID_MASK, futex, 0);
	return 0;
}

/* Lists the records of a thread again if user space wants it, before its next system call. */
INLINE void return_caller(u32 pid)
{
	u32 number = job_number(pid);
	struct waits *waits = number ? bpf_map_lookup_elem(&release_waits, &number) : 0;
	struct job *job = number ? bpf_map_lookup_elem(&jobs, &number) : 0;

	if (waits && job && job->counted && !waits->wanted)
		return_job(job, pid, bpf_ktime_get_ns());
}

SEC("tp_btf/sys_enter")
int calling(u64 *arguments)
{
	void *regs = (void *)arguments[0];
	u32 cpu = bpf_get_smp_processor_id();
	struct head *head = bpf_map_lookup_elem(&heads, &cpu);
	u32 pid = bpf_get_current_pid_tgid();
	u32 nanosleep = ~0, clock_nanosleep = ~0, futex = ~0, number = arguments[1];
	u64 one, two, three = 0;

	if (head)
		head->calls++;
	if (!is_watched(pid))
		return 0;
	if (head)
		head->watched_calls++;
	if (!is_light())
		return_caller(pid);
	read_arguments(regs, &one, &two);
	if (HAS(pt_regs___x86, orig_ax)) {
		three = ((struct pt_regs___third *)regs)->dx;
		nanosleep = 35, futex = 202, clock_nanosleep = 230;
	} else if (HAS(pt_regs___arm64, syscallno)) {
		three = ((struct pt_regs___arm64 *)regs)->regs[2];
		nanosleep = 101, futex = 98, clock_nanosleep = 115;
	}
	if (counting && !counted_job(pid) && (is_release(number) || has_bit(&learning, pid)))
		put_counters(pid, bpf_ktime_get_ns(), 1);
	list_call(pid, number, put(SYS_ENTER, number, one, two));
	if (number == clock_nanosleep)
		put_sleep(pid, number, one, two, three);
	else if (number == nanosleep)
		put_sleep(pid, number, CLOCK_MONOTONIC, 0, one);
	else if (number == futex && ((two & FUTEX_OPERATION) == FUTEX_LOCK_PI ||
				     (two & FUTEX_OPERATION) == FUTEX_LOCK_PI2))
		put_owner(one);
	return 0;
}

SEC("tp_btf/sys_exit")
int returning(u64 *arguments)
{
	void *regs = (void *)arguments[0];
	u32 number = ~0, pid = bpf_get_current_pid_tgid();

	if (!is_watched(pid))
		return 0;
	if (HAS(pt_regs___x86, orig_ax))
		number = ((struct pt_regs___x86 *)regs)->orig_ax;
	else if (HAS(pt_regs___arm64, syscallno))
		number = ((struct pt_regs___arm64 *)regs)->syscallno;
	list_call(pid, number, put(SYS_EXIT, number, arguments[1], 0));
	return 0;
}

SEC("tp_btf/page_fault_user")
int faulting(u64 *arguments)
{
	if (is_watched(bpf_get_current_pid_tgid()))
		put(FAULT_USER, arguments[2], arguments[0], 0);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int faulting_in_call(u64 *arguments)
{
	if (!page_faults_are_disabled() && is_watched(bpf_get_current_pid_tgid()))
		put(FAULT_KERNEL, arguments[2], arguments[0], 0);
	return 0;
}

/* Minor and major faults are counted shortly before they return. */
SEC("perf_event")
int fault_ends(struct bpf_perf_event_data *context)
{
	if (is_watched(bpf_get_current_pid_tgid()))
		put(FAULT_END, 0, context->addr, 0);
	return 0;
}

/* A signal with another result than 0 is ignored or lost, and wakes no thread. */
SEC("tp_btf/signal_generate")
int signalled(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[2];

	if (!(int)arguments[4] && is_watched(task->pid))
		put_task(SIGNAL_GENERATE, task, arguments[0], 0, 0);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int irq_handler_begins(u64 *arguments)
{
	struct irqaction *action = (struct irqaction *)arguments[1];
	u32 sequence, pid = bpf_get_current_pid_tgid();
	struct cpu *cpu = this_cpu();
	struct record *record;

	if (cpu)
		cpu->interrupts++;
	if (!matters())
		return 0;
	record = begin(IRQ_ENTRY, &sequence);
	if (!record)
		return 0;
	record->flags = FLAG_HARDIRQ;
	record->other.pid = pid;
	record->other.number = arguments[0];
	record->other.text[0] = 0;
	bpf_probe_read_kernel_str(record->other.text, sizeof(record->other.text), action->name);
	end(record, sequence);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int irq_handler_ends(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (matters())
		put(IRQ_EXIT, arguments[0], arguments[2], 0);
	if (cpu && cpu->interrupts)
		cpu->interrupts--;
	return 0;
}

SEC("tp_btf/softirq_entry")
int softirq_begins(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->softirq_task = (u32)bpf_get_current_pid_tgid() + 1;
	if (matters())
		put(SOFTIRQ_ENTRY, arguments[0], 0, 0);
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_ends(u64 *arguments)
{
	struct cpu *cpu = this_cpu();

	if (matters())
		put(SOFTIRQ_EXIT, arguments[0], 0, 0);
	/* On PREEMPT_RT another thread's softirq may have begun meanwhile. */
	if (cpu && cpu->softirq_task == (u32)bpf_get_current_pid_tgid() + 1)
		cpu->softirq_task = 0;
	return 0;
}

#define VECTOR(name, number)                                                                 \
	SEC("tp_btf/" #name "_entry")                                                        \
	int name##_begins(u64 *arguments)                                                    \
	{                                                                                    \
		struct cpu *cpu = this_cpu();                                                \
											     \
		if (cpu)                                                                     \
			cpu->interrupts++;                                                   \
		if (matters())                                                               \
			put(VECTOR_ENTRY, number, 0, 0);                                     \
		return 0;                                                                    \
	}                                                                                    \
											     \
	SEC("tp_btf/" #name "_exit")                                                         \
	int name##_ends(u64 *arguments)                                                      \
	{                                                                                    \
		struct cpu *cpu = this_cpu();                                                \
											     \
		if (matters())                                                               \
			put(VECTOR_EXIT, number, 0, 0);                                      \
		if (cpu && cpu->interrupts)                                                  \
			cpu->interrupts--;                                                   \
		return 0;                                                                    \
	}

VECTOR(local_timer, LOCAL_TIMER)
VECTOR(reschedule, RESCHEDULE)
VECTOR(call_function, CALL_FUNCTION)
VECTOR(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR(irq_work, IRQ_WORK)
VECTOR(ipi, IPI)

INLINE void put_request(u32 kind, const struct request *request)
{
	struct request_queue *queue = request->q;
	struct gendisk *disk = queue ? queue->disk : 0;

	/* A device number in the kernel's own format. */
	put(kind, disk ? disk->major << 20 | disk->first_minor : 0, request->__sector, 0);
}

SEC("tp_btf/block_rq_issue")
int issuing(u64 *arguments)
{
	put_request(BLOCK_ISSUE, (struct request *)arguments[0]);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int completing(u64 *arguments)
{
	put_request(BLOCK_COMPLETE, (struct request *)arguments[0]);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
