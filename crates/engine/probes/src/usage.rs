//! Splits the usage of a thread that serves several workers.

use punctual_model::{Nanos, ThreadUsage};

/// Adds the usage of a thread between `before` and `after`.
pub(crate) fn add_usage(
    sum: &mut ThreadUsage,
    before: &punctual_rt::ThreadUsage,
    after: &punctual_rt::ThreadUsage,
) {
    sum.page_faults_minor += after.minor_faults - before.minor_faults;
    sum.page_faults_major += after.major_faults - before.major_faults;
    sum.switches_voluntary += after.voluntary_switches - before.voluntary_switches;
    sum.switches_involuntary += after.involuntary_switches - before.involuntary_switches;
    sum.cpu_time_ns += Nanos::from(after.cpu_time.saturating_sub(before.cpu_time));
}
