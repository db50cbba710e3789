use super::*;
use crate::watch::{GroupAsk, GroupsOf};

/// The group that a thread had at its wake-up is used, because the thread may already have ended
/// when the switch to it is read.
#[test]
fn immediately_ending_thread_counts_in_its_group() {
    let ask = WatchAsk {
        groups: Some(GroupAsk {
            of: GroupsOf::Unified,
            rows: true,
            only: true,
        }),
        ..ASK
    };
    let mut looked = 0;
    let find: GroupFinder = Box::new(move |tid| {
        looked += 1;
        match tid {
            7 => (looked == 1).then_some(70),
            _ => Some(80),
        }
    });
    let mut counter = Counter::new(ask, 0..2).with_groups(Some(find));
    counter.count_only(&BTreeSet::from([70]));
    let (short, other) = (task(7, 120), task(8, 120));
    let events = [
        waking(5_000, 0, 9, short),
        waking(5_500, 0, 9, other),
        switch(9_000, 1, other, short),
        switch(9_500, 1, short, IDLE),
    ];
    events.iter().for_each(|events| counter.take(events));
    let seen = counter.seen(Nanos(1), "a test");
    let waits = |id| {
        let rows = seen.rows.iter();
        let of_group = rows.filter(|row| row.group.as_ref().is_some_and(|group| group.id == id));
        of_group.map(|row| row.waits.count).sum::<u64>()
    };
    assert_eq!((waits(70), waits(80), count(&seen)), (1, 0, 1), "{seen:?}");
}
