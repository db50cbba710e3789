// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Measures the time that a hypervisor took from each CPU, to the nanosecond, with the
 * surrounding events; and the duration of interrupt handlers.
 *
 * The scheduler reads the steal counter whenever it updates the clock of its run queue,
 * and keeps the value (update_rq_clock_task() in kernel/sched/core.c, with
 * CONFIG_PARAVIRT_TIME_ACCOUNTING). These programs check that value at events; they write
 * a record only if it rose, with the two events between which it rose.
 */
#include "barrier.h"
#include "jobs.h"

/* Set by the loader: the number of CPUs with an entry. */
const volatile u32 cpus_max = 0;

enum { RECORDS = 1024, HANDLERS = 256, SOFTIRQS = 240, TIMER = 250 };
/* Eight for each power of two, up to 17 s. */
enum { BUCKETS = 8 * 34 };

/* include/linux/sched.h, kernel/sched/sched.h */
struct rq {
	int cpu;
	u64 clock;
	u64 prev_steal_time_rq;
} __attribute__((preserve_access_index));

struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));

struct sched_entity {
	struct cfs_rq *cfs_rq;
} __attribute__((preserve_access_index));

struct task_struct___se {
	struct sched_entity se;
} __attribute__((preserve_access_index));

/* The data of one CPU, which only that CPU writes. */
struct cpu {
	u64 since;	/* from when on all rises are known */
	u64 until;	/* until when */
	u64 stolen;	/* since boot */
	u64 clock;	/* of the queue, when it was last brought up to date */
	u64 seen;	/* the last event */
	u64 irq_from;
	u64 irq_total;	/* in interrupts, ever */
	u64 softirq_from;
	u64 softirq_irqs;	/* irq_total at its begin */
	u64 timer_from;
	u64 padding[6];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, 1);	/* set by the loader */
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cpu);
} cpus SEC(".maps");

struct record {
	u64 from;
	u64 to;
	u64 stolen;
	u32 sequence;	/* 0 while it is written */
	u32 cpu;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, RECORDS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct record);
} records SEC(".maps");

/* The handler that uses this entry, plus one, and a histogram of its durations. */
struct lengths {
	u64 handler;
	u32 buckets[BUCKETS];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_NUMBER(max_entries, HANDLERS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct lengths);
} lengths SEC(".maps");

u64 begun;

INLINE void put(u64 from, u64 to, u64 stolen, u32 cpu)
{
	u64 number = __sync_fetch_and_add(&begun, 1);
	u32 place = number & (RECORDS - 1);
	struct record *record = bpf_map_lookup_elem(&records, &place);

	if (!record)
		return;
	*(volatile u32 *)&record->sequence = 0;
	barrier();
	record->from = from;
	record->to = to;
	record->stolen = stolen;
	record->cpu = cpu;
	barrier();
	*(volatile u32 *)&record->sequence = (u32)number + 1;
}

/*
 * The clock was updated after the last event, so the value dates from between that event
 * and now. The value before dates from after `until`.
 */
INLINE void look(struct cpu *own, u32 cpu, u64 now)
{
	struct task_struct___se *task = (void *)bpf_get_current_task_btf();
	struct rq *rq;
	u64 clock, stolen;

	if (!HAS(rq, prev_steal_time_rq) || !HAS(sched_entity, cfs_rq) || !HAS(cfs_rq, rq))
		return;
	rq = task->se.cfs_rq->rq;
	if ((u32)rq->cpu != cpu)
		return;
	clock = rq->clock;
	if (clock == own->clock) {
		own->seen = now;
		return;
	}
	stolen = rq->prev_steal_time_rq;
	if (!own->since)
		own->since = now;
	else if (stolen > own->stolen)
		put(own->until, now, stolen - own->stolen, cpu);
	own->clock = clock;
	own->stolen = stolen;
	/* The records contain all rises up to this time. */
	barrier();
	own->until = own->seen ? own->seen : now;
	own->seen = now;
}

INLINE struct cpu *note(u64 *now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cpu *own = cpu < cpus_max ? bpf_map_lookup_elem(&cpus, &cpu) : 0;

	*now = bpf_ktime_get_ns();
	if (own)
		look(own, cpu, *now);
	return own;
}

INLINE u32 bucket_of(u64 ns)
{
	u32 power = 3;

	if (ns < 16)
		return ns;
#pragma unroll
	for (u32 i = 4; i < 34; i++)
		if (ns >> i)
			power = i;
	return 8 * (power - 2) + ((ns >> (power - 3)) & 7);
}

/* Counts a completed run of a handler. */
static __attribute__((noinline)) int count(u32 place, u32 handler, u64 ns)
{
	struct lengths *row;
	u32 bucket = bucket_of(ns);
	u64 named = (u64)handler + 1;

	row = bpf_map_lookup_elem(&lengths, &place);
	if (!row)
		return 0;
	if (!row->handler)
		row->handler = named;
	/* If two handlers share an index, the second has no row. */
	if (row->handler != named)
		return 0;
	asm volatile("" : "+r"(bucket));
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&row->buckets[bucket], 1);
	return 0;
}

#define EVENT(name)                                                                  \
	SEC("tp_btf/" #name)                                                         \
	int name(u64 *arguments)                                                     \
	{                                                                            \
		u64 now;                                                             \
		(void)arguments;                                                     \
		note(&now);                                                          \
		return 0;                                                            \
	}

EVENT(sched_switch)
EVENT(sched_waking)
EVENT(sched_wakeup)

SEC("tp_btf/irq_handler_entry")
int irq_entry(u64 *arguments)
{
	u64 now;
	struct cpu *own = note(&now);

	if (own)
		own->irq_from = now;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int irq_exit(u64 *arguments)
{
	u32 irq = arguments[0];
	u64 now;
	struct cpu *own = note(&now);

	if (!own || !own->irq_from)
		return 0;
	now -= own->irq_from;
	own->irq_from = 0;
	own->irq_total += now;
	count(irq % SOFTIRQS, irq, now);
	return 0;
}

SEC("tp_btf/softirq_entry")
int softirq_entry(u64 *arguments)
{
	u64 now;
	struct cpu *own = note(&now);

	if (!own)
		return 0;
	own->softirq_from = now;
	own->softirq_irqs = own->irq_total;
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *arguments)
{
	u32 vec = arguments[0];
	u64 now, irqs;
	struct cpu *own = note(&now);

	if (!own || !own->softirq_from || vec >= TIMER - SOFTIRQS)
		return 0;
	now -= own->softirq_from;
	own->softirq_from = 0;
	irqs = own->irq_total - own->softirq_irqs;
	count(SOFTIRQS + vec, vec, now > irqs ? now - irqs : 0);
	return 0;
}

SEC("tp_btf/local_timer_entry")
int timer_entry(u64 *arguments)
{
	u64 now;
	struct cpu *own = note(&now);

	if (own)
		own->timer_from = now;
	return 0;
}

SEC("tp_btf/local_timer_exit")
int timer_exit(u64 *arguments)
{
	u64 now;
	struct cpu *own = note(&now);

	if (!own || !own->timer_from)
		return 0;
	now -= own->timer_from;
	own->timer_from = 0;
	own->irq_total += now;
	count(TIMER, 0, now);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
