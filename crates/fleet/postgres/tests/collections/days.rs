//! The recordings of each machine are summed by day.

use punctual_model::{Limit, Metric};
use punctual_store::{MachineDay, Received};

use super::{each, receive, recording, time};

#[test]
fn days_of_each_machine_are_summed() {
    each(|all| {
        let day = 24 * 60;
        let mut exceeded = recording(2 * day, "pi-1");
        exceeded.requirement.limits = vec![Limit {
            metric: Metric::Max,
            at_most: 0,
        }];
        exceeded.verdict = exceeded.judge();
        let runs = [
            recording(0, "pi-1"),
            recording(day, "pi-1"),
            recording(day + 60, "pi-1"),
            exceeded,
            recording(2 * day + 1, "pi-2"),
        ];
        for one in &runs {
            let host = one.host.hostname.value.as_deref().unwrap();
            assert_eq!(receive(all, host, one, None), Received::New);
        }
        let days = all.days(time(day)).unwrap();
        let wanted = [
            ("pi-1", "2026-11-04", 0),
            ("pi-1", "2026-11-05", 1),
            ("pi-2", "2026-11-05", 0),
        ];
        let wanted = wanted.map(|(machine, day, bad)| MachineDay {
            machine: machine.to_owned(),
            day: day.parse().unwrap(),
            bad,
            max_ns: runs[0].all_latencies().max(),
        });
        assert_eq!(days, wanted);
    });
}
