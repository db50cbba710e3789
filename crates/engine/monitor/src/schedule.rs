//! Computes when a series is due.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use punctual_model::{SeriesEpoch, SlotCause};

use crate::plan::SeriesPlan;

/// Maximum number of due times of a series that are listed at once. Otherwise, a clock that was
/// wrong by decades would create millions of rows.
pub(crate) const MOST: usize = 10_000;

/// Returns the due times after `from` up to and including `to`, in ascending order, without
/// duplicates. If there are more than ten thousand, returns the latest of them, and `true`.
///
/// A time of day that daylight saving time skips is due right after the change. A time of day that
/// occurs twice is due the first time. The random times of a sampled series are those of `epoch`.
pub fn due_between(
    (series, epoch): (&SeriesPlan, &SeriesEpoch),
    from: Timestamp,
    to: Timestamp,
    zone: &TimeZone,
) -> (Vec<(Timestamp, SlotCause)>, bool) {
    if to <= from {
        return (Vec::new(), false);
    }
    let mut all = Vec::new();
    let mut cut = at_times(series, from, to, zone, &mut all);
    cut |= at_intervals(series, from, to, &mut all);
    cut |= at_random(series, epoch, from, to, &mut all);
    all.sort_by_key(|(due, _)| *due);
    all.dedup_by_key(|(due, _)| *due);
    let surplus = all.len().saturating_sub(MOST);
    all.drain(..surplus);
    (all, cut || surplus > 0)
}

fn at_times(
    series: &SeriesPlan,
    from: Timestamp,
    to: Timestamp,
    zone: &TimeZone,
    all: &mut Vec<(Timestamp, SlotCause)>,
) -> bool {
    if series.at.is_empty() {
        return false;
    }
    let date_of = |time: Timestamp| time.to_zoned(zone.clone()).date();
    // One extra day on each side, because time zones shift dates.
    let (mut day, mut left) = (next(date_of(to)), MOST + 2);
    let first = date_of(from).yesterday().unwrap_or(Date::MIN);
    while day >= first && left > 0 {
        left -= 1;
        for time in &series.at {
            let due = day.to_datetime(*time).to_zoned(zone.clone());
            let due = due.map(|due| due.timestamp());
            all.extend(
                due.ok()
                    .filter(|due| *due > from && *due <= to)
                    .map(|due| (due, SlotCause::At)),
            );
        }
        match day.yesterday() {
            Ok(before) => day = before,
            Err(_) => break,
        }
    }
    left == 0
}

fn next(day: Date) -> Date {
    day.checked_add(1.day()).unwrap_or(Date::MAX)
}

fn at_intervals(
    series: &SeriesPlan,
    from: Timestamp,
    to: Timestamp,
    all: &mut Vec<(Timestamp, SlotCause)>,
) -> bool {
    let Some(every) = series.every else {
        return false;
    };
    let every = i128::from(every.0.max(1));
    let last = to.as_nanosecond().div_euclid(every);
    let first = from.as_nanosecond().div_euclid(every) + 1;
    let kept = first.max(last - MOST as i128);
    let times = (kept..=last).filter_map(|number| {
        let due = Timestamp::from_nanosecond(number * every).ok()?;
        Some((due, SlotCause::Every))
    });
    all.extend(times);
    kept > first
}

fn at_random(
    series: &SeriesPlan,
    epoch: &SeriesEpoch,
    from: Timestamp,
    to: Timestamp,
    all: &mut Vec<(Timestamp, SlotCause)>,
) -> bool {
    let last = series
        .sample()
        .and_then(|sample| Some((sample, sample.number_at(epoch.begun, to)?)));
    let Some((sample, last)) = last else {
        return false;
    };
    let first = sample.number_at(epoch.begun, from).unwrap_or_default();
    let kept = first.max(last.saturating_sub(MOST as u64));
    let due = (kept..=last).filter_map(|number| sample.due(epoch.seed(), epoch.begun, number));
    let due = due.filter(|due| *due > from && *due <= to);
    all.extend(due.map(|due| (due, SlotCause::Sample)));
    kept > first
}

/// Returns the next due time after `from`; `None` if the series has no schedule, or if the time is
/// out of the range of [`Timestamp`]. The random times of a sampled series are unknown before its
/// first epoch begins.
pub fn next_due(
    series: &SeriesPlan,
    epoch: Option<&SeriesEpoch>,
    from: Timestamp,
    zone: &TimeZone,
) -> Option<Timestamp> {
    let every = series.every.map(|every| {
        let every = i128::from(every.0.max(1));
        (from.as_nanosecond().div_euclid(every) + 1) * every
    });
    let every = every.and_then(|ns| Timestamp::from_nanosecond(ns).ok());
    // Each time of day occurs within two days, even if a date is skipped.
    let ahead = from.checked_add(72.hours()).ok()?;
    let mut times = Vec::new();
    at_times(series, from, ahead, zone, &mut times);
    let at = times.into_iter().map(|(due, _)| due).min();
    let random = series.sample().zip(epoch).and_then(|(sample, epoch)| {
        let number = sample.number_at(epoch.begun, from).unwrap_or_default();
        let due = |number| sample.due(epoch.seed(), epoch.begun, number);
        // The run of this part can be over.
        due(number)
            .filter(|due| *due > from)
            .or_else(|| due(number + 1))
    });
    every.into_iter().chain(at).chain(random).min()
}
