//! An axis of days, months and years.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::super::Scale;
use super::super::axis::{Axis, Label, Tick};

/// Distances between ticks in minutes. Longer distances are in days, and then in months.
const MINUTES: [f64; 11] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 360.0, 720.0,
];
const DAYS: [i64; 5] = [1, 2, 5, 7, 14];
const MONTHS: [i64; 5] = [1, 2, 3, 6, 12];

const MINUTE: f64 = 60.0;
pub(super) const DAY: f64 = 86_400.0;

/// Returns the seconds since the start of the axis.
pub(super) fn seconds(from: Timestamp, time: Timestamp) -> f64 {
    (time.as_nanosecond() - from.as_nanosecond()) as f64 / 1e9
}

/// Returns an axis from `from` to `to` with at most about `most` ticks.
pub(super) fn axis((from, to): (Timestamp, Timestamp), most: usize) -> Axis {
    let span = seconds(from, to).max(60.0);
    let mut axis = Axis {
        scale: Scale::Linear,
        low: 0.0,
        high: span,
        from: 0.0,
        to: 1.0,
        ticks: ticks(from, span, most.max(2)),
        title: "start of the run (UTC)".to_owned(),
        list: None,
    };
    if axis.ticks.is_empty() {
        axis.ticks.push(Tick {
            value: 0.0,
            label: Some(Label::Text(from.strftime("%m-%d %H:%M").to_string())),
        });
    }
    axis
}

fn ticks(from: Timestamp, span: f64, most: usize) -> Vec<Tick> {
    let most = most as f64;
    if span < 2.0 * DAY {
        let step = MINUTES.map(|minutes| minutes * MINUTE);
        let step = step.into_iter().find(|step| span / step <= most);
        return minutes(from, span, step.unwrap_or(DAY));
    }
    let first = from.to_zoned(TimeZone::UTC).date();
    match DAYS
        .into_iter()
        .find(|days| span / (*days as f64 * DAY) <= most)
    {
        Some(days) => dates(
            from,
            span,
            first,
            |date| date.checked_add(days.days()).ok(),
            "%m-%d",
        ),
        None => {
            let months = MONTHS
                .into_iter()
                .find(|months| span / (*months as f64 * 30.4 * DAY) <= most);
            let months = months.unwrap_or(24);
            let first = first.first_of_month();
            dates(
                from,
                span,
                first,
                |date| date.checked_add(months.months()).ok(),
                "%Y-%m",
            )
        }
    }
}

fn minutes(from: Timestamp, span: f64, step: f64) -> Vec<Tick> {
    let start = from.as_second() as f64;
    let first = (start / step).ceil() * step;
    let marks = (0..).map(|number| first + step * f64::from(number) - start);
    marks
        .take_while(|value| *value <= span)
        .filter_map(|value| {
            let time = Timestamp::from_second((start + value).round() as i64).ok()?;
            Some((value, time.strftime("%d. %H:%M").to_string()))
        })
        .map(|(value, text)| tick(value, text))
        .collect()
}

fn dates(
    from: Timestamp,
    span: f64,
    first: Date,
    next: impl Fn(Date) -> Option<Date>,
    format: &str,
) -> Vec<Tick> {
    let mut ticks = Vec::new();
    let mut date = Some(first);
    while let Some(day) = date {
        let Ok(start) = day.to_zoned(TimeZone::UTC) else {
            break;
        };
        let value = seconds(from, start.timestamp());
        if value > span {
            break;
        }
        if value >= 0.0 {
            ticks.push(tick(value, day.strftime(format).to_string()));
        }
        date = next(day);
    }
    ticks
}

fn tick(value: f64, text: String) -> Tick {
    Tick {
        value,
        label: Some(Label::Text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_within() {
        let from: Timestamp = "2026-03-03T07:10:00Z".parse().unwrap();
        for minutes in [
            0, 7, 14, 29, 60, 420, 1_800, 12_000, 161_280, 540_000, 5_400_000,
        ] {
            let to = from + jiff::SignedDuration::from_mins(minutes);
            let axis = axis((from, to), 8);
            let least = if minutes > 0 { 2 } else { 1 };
            assert!(
                (least..=9).contains(&axis.ticks.len()),
                "{minutes}: {axis:?}"
            );
            let within = axis
                .ticks
                .iter()
                .all(|tick| (0.0..=axis.high).contains(&tick.value));
            assert!(within, "{minutes}: {axis:?}");
        }
    }
}
