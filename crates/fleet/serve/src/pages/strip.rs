//! A strip of the last days of a machine: one bar a day. The height shows the largest latency on one
//! log scale for all machines, the colour shows it relative to the limit.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::ToSpan;
use jiff::civil::Date;
use maud::{Markup, PreEscaped, html};
use punctual_model::Nanos;
use punctual_store::MachineDay;

use crate::listing::DAYS;

/// Width of a bar and of the gap after it, and height of the strip, in pixels.
const BAR: i64 = 2;
const GAP: i64 = 1;
const HEIGHT: f64 = 22.0;
/// The latencies of the lowest and the highest bar, in nanoseconds.
const LOWEST: f64 = 1e3;
const HIGHEST: f64 = 1e7;

/// The colour of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// No recording, between days with recordings.
    Hole,
    /// Recordings without a limit.
    NoLimit,
    /// At most half of the limit.
    Low,
    /// At most the limit.
    Within,
    /// Above the limit, or a broken requirement.
    Above,
    /// More than twice the limit.
    FarAbove,
}

/// The colours, with their CSS classes and meanings.
const LEVELS: [(Level, &str, &str); 6] = [
    (Level::Low, "s-low", "at most half of the limit"),
    (Level::Within, "s-in", "at most the limit"),
    (Level::Above, "s-over", "above the limit"),
    (Level::FarAbove, "s-far", "more than twice the limit"),
    (Level::NoLimit, "s-none", "no limit"),
    (Level::Hole, "s-hole", "no recording"),
];

fn level(day: &MachineDay, limit: Option<Nanos>) -> Level {
    let by_latency = match (day.max_ns, limit) {
        (Some(max), Some(limit)) if max.0 > limit.0.saturating_mul(2) => Level::FarAbove,
        (Some(max), Some(limit)) if max > limit => Level::Above,
        (Some(max), Some(limit)) if max.0 > limit.0 / 2 => Level::Within,
        (Some(_), Some(_)) => Level::Low,
        _ => Level::NoLimit,
    };
    if day.bad > 0 {
        by_latency.max(Level::Above)
    } else {
        by_latency
    }
}

/// Height of a bar in pixels, on a log scale.
fn height(max: Option<Nanos>) -> f64 {
    let share = max.map_or(0.0, |max| {
        ((max.0 as f64).max(LOWEST) / LOWEST).ln() / (HIGHEST / LOWEST).ln()
    });
    3.0 + share.min(1.0) * (HEIGHT - 3.0)
}

/// Returns the strip of the days up to `today`. Days before the first recording are empty.
pub(super) fn strip(days: &[MachineDay], limit: Option<Nanos>, today: Date) -> Markup {
    let first = today.saturating_sub((DAYS - 1).days());
    let shown: Vec<&MachineDay> = days.iter().filter(|day| day.day >= first).collect();
    let place = |day: &MachineDay| (day.day - first).get_days() as usize;
    let mut cells: Vec<Option<&MachineDay>> = vec![None; DAYS as usize];
    for day in &shown {
        // The clock of a machine can be ahead.
        if let Some(cell) = cells.get_mut(place(day)) {
            *cell = Some(*day);
        }
    }
    let Some(oldest) = shown.first().map(|day| place(day)) else {
        return html! { "-" };
    };
    let mut paths: BTreeMap<Level, String> = BTreeMap::new();
    for (at, cell) in (0..DAYS).zip(&cells).skip(oldest) {
        let (level, tall) = match cell {
            None => (Level::Hole, 3.0),
            Some(day) => (level(day, limit), height(day.max_ns)),
        };
        let (x, y) = (at * (BAR + GAP), HEIGHT - tall);
        let path = paths.entry(level).or_default();
        let _ = write!(path, "M{x} {y:.0}h{BAR}V{HEIGHT}h-{BAR}z");
    }
    let width = DAYS * (BAR + GAP);
    html! {
        svg .strip width=(width) height=(HEIGHT) viewBox={ "0 0 " (width) " " (HEIGHT) } role="img"
            data-from=(first) data-max=(maxima(&cells)) {
            title { (summary(&shown, limit)) }
            @for (level, class, _) in LEVELS { @if let Some(path) = paths.get(&level) {
                path class=(class) d=(path) {}
            } }
        }
    }
}

/// Returns the largest latency of each day in microseconds. A day without recordings is empty; one
/// whose latency is unknown is `-`.
fn maxima(cells: &[Option<&MachineDay>]) -> String {
    let each = cells.iter().map(|cell| match cell {
        None => String::new(),
        Some(day) => match day.max_ns {
            None => "-".to_owned(),
            Some(max) => {
                let us = max.0 as f64 / 1e3;
                let decimals = usize::from(us < 100.0) + usize::from(us < 10.0);
                format!("{us:.decimals$}")
            }
        },
    });
    each.collect::<Vec<_>>().join(",")
}

/// Returns the strip in words.
fn summary(days: &[&MachineDay], limit: Option<Nanos>) -> String {
    let worst = days.iter().max_by_key(|day| day.max_ns);
    let worst = worst.and_then(|day| Some(format!("; worst {} on {}", day.max_ns?, day.day)));
    let limit = match limit {
        None => "no limit".to_owned(),
        Some(limit) => {
            let above = days
                .iter()
                .filter(|day| level(day, Some(limit)) >= Level::Above);
            format!("limit {limit}, above it on {} days", above.count())
        }
    };
    let count = days.len();
    format!(
        "{count} of the last {DAYS} days have recordings{}; {limit}",
        worst.unwrap_or_default()
    )
}

/// Returns the range of the daily maxima of the days before the newest one, without the lowest and
/// the highest tenth. `None` with too few days.
pub(super) fn usual(days: &[MachineDay]) -> Option<(Nanos, Nanos)> {
    let (_, before) = days.split_last()?;
    let mut all: Vec<Nanos> = before.iter().filter_map(|day| day.max_ns).collect();
    if all.len() < 5 {
        return None;
    }
    all.sort_unstable();
    let skip = all.len() / 10;
    Some((all[skip], all[all.len() - 1 - skip]))
}

/// Returns the meaning of the colours and heights.
pub(super) fn legend() -> Markup {
    html! {
        p .colours {
            "One bar for each of the last " (DAYS) " days (UTC). Height: largest latency, 1 µs to \
                10 ms, log scale. Colour: "
            @for (_, class, meaning) in LEVELS {
                span .pair {
                    svg .key width="10" height="10" viewBox="0 0 10 10" aria-hidden="true" {
                        (PreEscaped(format!("<path class=\"{class}\" d=\"M0 0h10v10h-10z\"/>")))
                    }
                    (meaning)
                }
                " "
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: i64) -> Date {
        Date::constant(2026, 11, 29).saturating_add(number.days())
    }

    fn day(number: i64, max_us: Option<u64>, bad: u64) -> MachineDay {
        MachineDay {
            machine: "board".to_owned(),
            day: at(number),
            bad,
            max_ns: max_us.map(Nanos::from_micros),
        }
    }

    #[test]
    fn colours_are_relative_to_the_limit() {
        let limit = Some(Nanos::from_micros(100));
        for (max_us, bad, with_limit, without) in [
            (Some(50), 0, Level::Low, Level::NoLimit),
            (Some(100), 0, Level::Within, Level::NoLimit),
            (Some(101), 0, Level::Above, Level::NoLimit),
            (Some(201), 0, Level::FarAbove, Level::NoLimit),
            // A requirement can be broken for another reason than the largest latency.
            (Some(50), 1, Level::Above, Level::Above),
            (None, 0, Level::NoLimit, Level::NoLimit),
        ] {
            let day = day(0, max_us, bad);
            assert_eq!(level(&day, limit), with_limit, "{day:?}");
            assert_eq!(level(&day, None), without, "{day:?}");
        }
    }

    #[test]
    fn a_hole_is_a_day_between_recordings() {
        let days = [day(-60, Some(9), 0), day(-3, Some(40), 0), day(-1, None, 0)];
        let shown = strip(&days, None, at(0)).into_string();
        let holes = shown.split("s-hole").nth(1).unwrap();
        assert_eq!(holes.split('"').nth(2).unwrap().matches('M').count(), 2);
        assert!(
            shown.contains(&format!("data-max=\"{},40.0,,-,\"", ",".repeat(55))),
            "{shown}"
        );
        let said = "2 of the last 60 days have recordings; worst 40.0 µs on 2026-11-26; no limit";
        assert!(shown.contains(said), "{shown}");
        assert_eq!(strip(&days[..1], None, at(0)).into_string(), "-");
    }

    #[test]
    fn heights_have_one_scale() {
        let of = |ns| height(Some(Nanos(ns))).round();
        assert_eq!(
            [of(1), of(1_000), of(10_000_000), of(u64::MAX)],
            [3.0, 3.0, 22.0, 22.0]
        );
        assert!(of(10_000) < of(100_000));
    }

    #[test]
    fn usual_range_leaves_out_the_newest_day_and_tenths() {
        let days: Vec<MachineDay> = (1..=12).map(|n| day(n, Some(n as u64 * 10), 0)).collect();
        let (low, high) = usual(&days).unwrap();
        assert_eq!(
            (low, high),
            (Nanos::from_micros(20), Nanos::from_micros(100))
        );
        assert_eq!(usual(&days[..5]), None);
    }
}
