//! Compares the processor's counters over a slow job with those over the usual job of its thread.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::{
    Counter, CounterComparison, CounterReading, HardwareCounters, JobCounts, Nanos,
};

/// Number of readings that are kept for each thread: those of the sleeps within a job, and of jobs
/// whose release wait is found late.
const READINGS: usize = 256;

/// Number of latest jobs whose median is the usual job.
const JOBS: usize = 512;

/// Minimum number of jobs for a median.
const LEAST: usize = 8;

/// Maximum time from the reading at the end of a job to the event that ends it. Both are written one
/// after the other.
const BEFORE_END: Nanos = Nanos::from_micros(100);

/// The counters of one thread at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    time: Nanos,
    values: [Option<CounterReading>; Counter::ALL.len()],
}

/// The counters of one thread.
#[derive(Debug, Default)]
struct Thread {
    readings: VecDeque<Values>,
    jobs: VecDeque<JobCounts>,
    /// End of the last job.
    completed: Nanos,
}

/// The counters of the watched threads.
#[derive(Debug, Default)]
pub struct JobCounters {
    threads: BTreeMap<u32, Thread>,
}

impl JobCounters {
    /// Adds a reading. The readings of each thread must be added in ascending order of time.
    pub fn take(&mut self, reading: &CounterReading) {
        let readings = &mut self.threads.entry(reading.tid).or_default().readings;
        if readings.back().is_none_or(|last| last.time != reading.time) {
            if readings.len() == READINGS {
                readings.pop_front();
            }
            readings.push_back(Values {
                time: reading.time,
                ..Values::default()
            });
        }
        if let Some(last) = readings.back_mut() {
            last.values[reading.counter.index()] = Some(*reading);
        }
    }

    /// Notes that events were lost, and readings with them. No job spans this time.
    pub fn lost(&mut self) {
        for thread in self.threads.values_mut() {
            thread.readings.clear();
        }
    }

    /// Forgets a thread, because another one got its ID.
    pub fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Compares a job with the earlier jobs of its thread, and adds it to them if it is typical. The
    /// jobs of each thread must be added in ascending order of time.
    pub fn job(
        &mut self,
        tid: u32,
        (release, completion): (Nanos, Nanos),
        is_typical: bool,
    ) -> HardwareCounters {
        let unknown = |why: &str| HardwareCounters::Unknown(why.to_owned());
        let Some(thread) = self.threads.get_mut(&tid) else {
            return unknown("no reading of this thread's counters");
        };
        let counts = thread.counts(release, completion);
        thread.completed = completion;
        let Some(slow) = counts else {
            return unknown("the counters were not read at the beginning or the end of this job");
        };
        let (jobs, median) = (thread.jobs.len(), thread.median());
        if is_typical {
            if thread.jobs.len() == JOBS {
                thread.jobs.pop_front();
            }
            thread.jobs.push_back(slow);
        }
        if slow == JobCounts::default() {
            return unknown("the processor did not count during all of this job");
        }
        if jobs < LEAST {
            let jobs = punctual_model::counted(jobs as u64, "earlier job", "earlier jobs");
            return unknown(&format!("only {jobs} to compare with"));
        }
        HardwareCounters::Compared(CounterComparison {
            slow,
            median,
            jobs: jobs as u64,
        })
    }
}

impl Thread {
    /// Returns the counters over a job; `None` if they were not read at its ends.
    ///
    /// The thread does not work between its last reading before the release and the release itself,
    /// because each sleep begins with a reading. If the job was released while the job before it was
    /// still in progress, its work begins at the end of that job.
    fn counts(&self, release: Nanos, completion: Nanos) -> Option<JobCounts> {
        let begins = release.max(self.completed);
        let before = |time: Nanos| self.readings.iter().rfind(move |one| one.time <= time);
        let (first, last) = (before(begins)?, before(completion)?);
        if last.time <= first.time || completion.saturating_sub(last.time) > BEFORE_END {
            return None;
        }
        let difference = |counter: Counter| {
            let place = counter.index();
            let (first, last) = (first.values[place]?, last.values[place]?);
            let (ran, counted) = (
                last.enabled.0.checked_sub(first.enabled.0)?,
                last.running.0.checked_sub(first.running.0)?,
            );
            // A counter that others used for a part of the time is unknown.
            let value = last.value.checked_sub(first.value)?;
            (ran == counted && ran > 0).then_some((value, Nanos(counted)))
        };
        let value = |counter: Counter| difference(counter).map(|(value, _)| value);
        Some(JobCounts {
            instructions: value(Counter::Instructions),
            cycles: value(Counter::Cycles),
            llc_misses: value(Counter::LlcMisses),
            on_cpu_ns: difference(Counter::Cycles).map(|(_, time)| time),
        })
    }

    fn median(&self) -> JobCounts {
        let of = |get: fn(&JobCounts) -> Option<u64>| {
            let mut values: Vec<u64> = self.jobs.iter().filter_map(get).collect();
            values.sort_unstable();
            let middle = values.get(values.len() / 2).copied();
            middle.filter(|_| values.len() >= LEAST)
        };
        JobCounts {
            instructions: of(|job| job.instructions),
            cycles: of(|job| job.cycles),
            llc_misses: of(|job| job.llc_misses),
            on_cpu_ns: of(|job| job.on_cpu_ns.map(|time| time.0)).map(Nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TID: u32 = 7;
    const MS: u64 = 1_000_000;

    /// A processor whose counters are known.
    #[derive(Default)]
    struct Fake {
        counters: JobCounters,
        values: [u64; 3],
        ran: Nanos,
        counted: Nanos,
        now: Nanos,
    }

    impl Fake {
        /// The thread begins to sleep.
        fn read(&mut self) {
            for counter in Counter::ALL {
                self.counters.take(&CounterReading {
                    time: self.now,
                    tid: TID,
                    counter,
                    value: self.values[counter.index()],
                    enabled: self.ran,
                    running: self.counted,
                });
            }
        }

        fn run(&mut self, [cycles, instructions, misses]: [u64; 3], length: u64) {
            self.values[0] += cycles;
            self.values[1] += instructions;
            self.values[2] += misses;
            for time in [&mut self.ran, &mut self.counted, &mut self.now] {
                *time += Nanos(length);
            }
        }

        /// Sleeps for 1 ms, and runs a job.
        fn job(&mut self, values: [u64; 3], length: u64) -> HardwareCounters {
            self.now += Nanos(MS);
            let release = self.now;
            self.run(values, length);
            self.read();
            // The event is written just after the reading.
            self.counters
                .job(TID, (release, self.now + Nanos(500)), true)
        }

        fn usual(&mut self, jobs: usize) {
            self.read();
            for number in 0..jobs {
                self.job([1_000_000, 2_000_000, 100 + number as u64 % 3], MS / 2);
            }
        }
    }

    fn unknown(found: &HardwareCounters) -> &str {
        match found {
            HardwareCounters::Unknown(why) => why,
            HardwareCounters::Compared(_) => panic!("{found}"),
        }
    }

    #[test]
    fn slow_job_is_compared_with_median() {
        let mut fake = Fake::default();
        fake.usual(20);
        let found = fake.job([3_100_000, 2_010_000, 4_040], MS * 31 / 20);
        assert_eq!(
            found.to_string(),
            "same instructions (2,010,000), 3.1 times the cycles, 40 times the LLC misses, at 2000 \
             MHz (compared with the median of 20 earlier jobs)"
        );
    }

    #[test]
    fn sleeps_within_a_job_belong_to_it() {
        let mut fake = Fake::default();
        fake.usual(20);
        fake.now += Nanos(MS);
        let release = fake.now;
        fake.run([500_000, 1_000_000, 50], MS / 4);
        fake.read();
        fake.now += Nanos(MS);
        fake.run([500_000, 1_000_000, 50], MS / 4);
        fake.read();
        let HardwareCounters::Compared(found) = fake.counters.job(TID, (release, fake.now), true)
        else {
            panic!("it is not compared");
        };
        assert_eq!(found.slow.cycles, Some(1_000_000));
        assert_eq!(found.slow.on_cpu_ns, Some(Nanos(MS / 2)));
    }

    #[test]
    fn job_after_overrun_begins_at_its_end() {
        let mut fake = Fake::default();
        fake.usual(20);
        fake.job([9_000_000, 9_000_000, 9], 4 * MS);
        // Its release passed while the job before it ran.
        let release = Nanos(fake.now.0 - MS);
        fake.run([1_000_000, 2_000_000, 100], MS / 2);
        fake.read();
        let HardwareCounters::Compared(found) = fake.counters.job(TID, (release, fake.now), true)
        else {
            panic!("it is not compared");
        };
        assert_eq!(found.slow.cycles, Some(1_000_000));
    }

    #[test]
    fn shared_counters_are_unknown() {
        let mut fake = Fake::default();
        fake.usual(20);
        fake.counted = Nanos(fake.counted.0 - 1);
        let found = fake.job([1_000_000, 2_000_000, 100], MS / 2);
        assert_eq!(
            unknown(&found),
            "the processor did not count during all of this job"
        );
        // The next job is counted as a whole.
        let found = fake.job([1_000_000, 2_000_000, 100], MS / 2);
        assert!(matches!(found, HardwareCounters::Compared(_)), "{found}");
    }

    #[test]
    fn a_missing_counter_leaves_the_others() {
        let mut fake = Fake::default();
        let take = |fake: &mut Fake| {
            fake.counters.take(&CounterReading {
                time: fake.now,
                tid: TID,
                counter: Counter::Instructions,
                value: fake.values[1],
                enabled: fake.ran,
                running: fake.counted,
            });
        };
        take(&mut fake);
        let mut found = HardwareCounters::Unknown(String::new());
        for _ in 0..=LEAST {
            fake.now += Nanos(MS);
            let release = fake.now;
            fake.run([0, 1_000, 0], MS);
            take(&mut fake);
            found = fake.counters.job(TID, (release, fake.now), true);
        }
        assert_eq!(
            found.to_string(),
            "same instructions (1,000), cycles unknown, LLC misses unknown, frequency unknown \
             (compared with the median of 8 earlier jobs)"
        );
    }

    #[test]
    fn jobs_without_readings_are_unknown() {
        let mut fake = Fake::default();
        let found = fake.counters.job(TID, (Nanos(1), Nanos(2)), true);
        assert_eq!(unknown(&found), "no reading of this thread's counters");
        fake.usual(3);
        let found = fake.job([1; 3], MS);
        assert_eq!(unknown(&found), "only 3 earlier jobs to compare with");
        fake.usual(20);
        fake.counters.lost();
        let found = fake.job([1; 3], MS);
        assert!(
            unknown(&found).contains("at the beginning or the end"),
            "{found}"
        );
        // The reading at the end is missing.
        let release = fake.now + Nanos(MS);
        let found = fake.counters.job(TID, (release, release + Nanos(MS)), true);
        assert!(
            unknown(&found).contains("at the beginning or the end"),
            "{found}"
        );
        fake.counters.forget(TID);
        let found = fake.job([1; 3], MS);
        assert!(
            unknown(&found).contains("at the beginning or the end"),
            "{found}"
        );
    }

    #[test]
    fn any_readings_do_no_harm() {
        let mut counters = JobCounters::default();
        for value in [u64::MAX, 0, 5, u64::MAX] {
            counters.take(&CounterReading {
                time: Nanos(value),
                tid: TID,
                counter: Counter::Cycles,
                value,
                enabled: Nanos(value),
                running: Nanos(value / 2),
            });
            for (release, end) in [(0, u64::MAX), (u64::MAX, 0), (5, 5)] {
                counters.job(TID, (Nanos(release), Nanos(end)), true);
            }
        }
        assert!(counters.threads[&TID].readings.len() <= READINGS);
    }

    #[test]
    fn few_jobs_are_no_usual_job() {
        for (jobs, is_compared) in [(7, false), (8, true)] {
            let mut fake = Fake::default();
            fake.usual(jobs);
            let found = fake.job([1_000_000, 2_000_000, 100], MS / 2);
            let compared = matches!(found, HardwareCounters::Compared(_));
            assert_eq!(compared, is_compared, "{jobs}: {found}");
        }
    }

    #[test]
    fn reading_belongs_to_the_end_of_the_job_just_after_it() {
        for (after, is_read) in [(100_000, true), (100_001, false)] {
            let mut fake = Fake::default();
            fake.usual(20);
            fake.now += Nanos(MS);
            let release = fake.now;
            fake.run([1_000_000, 2_000_000, 100], MS / 2);
            fake.read();
            let end = fake.now + Nanos(after);
            let found = fake.counters.job(TID, (release, end), true);
            let compared = matches!(found, HardwareCounters::Compared(_));
            assert_eq!(compared, is_read, "{after}: {found}");
        }
    }

    /// A long job is compared with the usual ones, but is none.
    #[test]
    fn unusual_jobs_do_not_change_the_usual_one() {
        let mut fake = Fake::default();
        fake.usual(9);
        for _ in 0..20 {
            fake.now += Nanos(MS);
            let release = fake.now;
            fake.run([7_000_000, 2_000_000, 100], 7 * MS);
            fake.read();
            let found = fake.counters.job(TID, (release, fake.now), false);
            let HardwareCounters::Compared(found) = found else {
                panic!("it is not compared");
            };
            assert_eq!((found.jobs, found.median.cycles), (9, Some(1_000_000)));
            assert_eq!(found.slow.cycles, Some(7_000_000));
        }
    }

    #[test]
    fn usual_job_is_that_of_the_latest_jobs() {
        let mut fake = Fake::default();
        fake.read();
        let mut median = |cycles: u64, jobs: usize| {
            for _ in 1..jobs {
                fake.job([cycles, 1, 1], MS);
            }
            match fake.job([cycles, 1, 1], MS) {
                HardwareCounters::Compared(found) => (found.jobs, found.median.cycles),
                HardwareCounters::Unknown(why) => panic!("{why}"),
            }
        };
        assert_eq!(median(10, 400), (399, Some(10)));
        assert_eq!(median(20, 112), (511, Some(10)));
        // The earliest jobs are forgotten. This is the 257th job of 512 with more cycles.
        assert_eq!(median(20, 145), (512, Some(20)));
        let readings = &fake.counters.threads[&TID].readings;
        assert_eq!(readings.len(), READINGS);
    }
}
