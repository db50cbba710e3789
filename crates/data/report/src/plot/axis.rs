//! Axes, which determine the position of each value and the labels.

use super::Scale;
use punctual_model::{Nanos, grouped};

/// A unit on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) ns: u64,
}

impl Unit {
    /// Returns the unit for latencies. This is usually microseconds, as is customary. To keep the
    /// numbers short, it is milliseconds from 100 ms on, and seconds from 100 s on.
    pub(super) fn for_latency(max: Nanos) -> Self {
        match max.0 {
            100_000_000_000.. => Self {
                name: "s",
                ns: 1_000_000_000,
            },
            100_000_000.. => Self {
                name: "ms",
                ns: 1_000_000,
            },
            _ => Self {
                name: "µs",
                ns: 1_000,
            },
        }
    }

    /// Returns seconds, minutes or hours for a time span.
    pub(super) fn for_time(span: Nanos) -> Self {
        match span.as_secs_f64() {
            s if s >= 4.0 * 3600.0 => Self {
                name: "h",
                ns: 3_600_000_000_000,
            },
            s if s >= 600.0 => Self {
                name: "min",
                ns: 60_000_000_000,
            },
            _ => Self {
                name: "s",
                ns: 1_000_000_000,
            },
        }
    }

    /// Same as [`for_latency`](Self::for_latency), but returns nanoseconds if the values in
    /// microseconds would be fractions, because reading a clock takes only some tens of
    /// nanoseconds.
    pub(super) fn for_costs(min: Nanos, max: Nanos, scale: Scale) -> Self {
        let most = if scale == Scale::Log {
            1_000_000
        } else {
            1_000
        };
        if min.0 < 1_000 && max.0 < most {
            Self { name: "ns", ns: 1 }
        } else {
            Self::for_latency(max)
        }
    }

    pub(super) fn scale(self, ns: f64) -> f64 {
        ns / self.ns as f64
    }
}

/// A marked position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// The label, or `None` for a small tick without a label.
    pub(super) label: Option<Label>,
}

/// The label of a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Text(String),
    /// A power of ten, drawn with a superscript exponent.
    Power(i32),
}

/// One axis. It maps the values from `low` to `high` to the pixels from `from` to `to`.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<Tick>,
    pub(super) title: String,
    /// The font size of the labels, if the axis is a list of items, which has neither ticks nor
    /// grid lines. `None` for an axis of values.
    pub(super) list: Option<u32>,
}

impl Axis {
    /// Returns an axis from 0 to a round value at or above `max`.
    pub(super) fn linear(max: f64, title: String) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_up(max / 10.0);
        let steps = (max / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as usize)
            .map(|index| {
                let value = index as f64 * step;
                Tick {
                    value,
                    label: Some(Label::Text(number(value, step))),
                }
            })
            .collect();
        Self {
            scale: Scale::Linear,
            low: 0.0,
            high: steps * step,
            from: 0.0,
            to: 1.0,
            ticks,
            title,
            list: None,
        }
    }

    /// Returns an axis from a round value at or below `min` to one at or above `max`. It is meant
    /// for colours, because the differences between colours would be hard to see on an axis from 0.
    /// The axis spans at least a quarter of `min`, so that noise does not look like structure.
    pub(super) fn range(min: f64, max: f64, title: String) -> Self {
        let min = min.max(0.0);
        let max = max.max(min * 1.25);
        let max = if max > 0.0 { max } else { 1.0 };
        let step = round_up((max - min) / 6.0);
        let first = (min / step + 1e-9).floor();
        let last = (max / step - 1e-9).ceil().max(first + 1.0);
        let ticks = (0..=(last - first) as usize)
            .map(|index| {
                let value = (first + index as f64) * step;
                Tick {
                    value,
                    label: Some(Label::Text(number(value, step))),
                }
            })
            .collect();
        Self {
            scale: Scale::Linear,
            low: first * step,
            high: last * step,
            from: 0.0,
            to: 1.0,
            ticks,
            title,
            list: None,
        }
    }

    /// Returns an axis of items, each in the middle of an interval of length 1. The first item is
    /// at the end of the axis, which is the top of a vertical one.
    pub(super) fn list(names: &[String], size: u32, title: String) -> Self {
        let high = names.len().max(1) as f64;
        let ticks = names
            .iter()
            .enumerate()
            .map(|(index, name)| Tick {
                value: high - index as f64 - 0.5,
                label: Some(Label::Text(name.clone())),
            })
            .collect();
        Self {
            scale: Scale::Linear,
            low: 0.0,
            high,
            from: 0.0,
            to: 1.0,
            ticks,
            title,
            list: Some(size),
        }
    }

    /// Returns an axis from 0 to exactly `max`, with ticks at round values. It is meant for time,
    /// where empty space at the end would look like missing data.
    pub(super) fn span(max: f64, title: String) -> Self {
        let mut axis = Self::linear(max, title);
        axis.high = if max > 0.0 { max } else { 1.0 };
        let end = axis.high * (1.0 + 1e-9);
        axis.ticks.retain(|tick| tick.value <= end);
        axis
    }

    /// Returns the axis with exactly the given end, if there is one and it is above the start of
    /// the axis.
    pub(super) fn ending(mut self, end: Option<f64>) -> Self {
        if let Some(end) = end.filter(|end| *end > self.low) {
            self.high = end;
            self.ticks.retain(|tick| tick.value <= end * (1.0 + 1e-9));
        }
        self
    }

    /// Returns a logarithmic axis from a round value at or below `min` to one at or above `max`,
    /// both greater than 0.
    pub(super) fn log(min: f64, max: f64, title: String) -> Self {
        let (min, max) = (min.max(1e-9), max.max(1e-9));
        let low = round_down(min.min(max));
        let mut high = round_up(max);
        if high <= low * 1.5 {
            high = low * 10.0;
        }
        Self {
            scale: Scale::Log,
            low,
            high,
            from: 0.0,
            to: 1.0,
            ticks: log_ticks(low, high),
            title,
            list: None,
        }
    }

    /// Returns a logarithmic axis for sample counts. It begins at half a sample, so that a count of
    /// one is visible above the floor, which means zero.
    pub(super) fn counts(max: f64, title: String) -> Self {
        let high = round_up(max.max(1.0) * 1.3);
        let high = if high < 10.0 { 10.0 } else { high };
        let mut ticks = log_ticks(1.0, high);
        // Counts between decades are not labelled.
        for tick in &mut ticks {
            let exponent = tick.value.log10();
            tick.label = ((exponent - exponent.round()).abs() < 1e-6)
                .then(|| power_label(exponent.round() as i32));
        }
        Self {
            scale: Scale::Log,
            low: 0.5,
            high,
            from: 0.0,
            to: 1.0,
            ticks,
            title,
            list: None,
        }
    }

    /// Returns an axis of percentiles in nines: the value `n` is the quantile `1 − 10^−n`.
    pub(super) fn nines(max: f64, title: String) -> Self {
        let high = (max * 2.0 - 1e-9).ceil().max(2.0) / 2.0;
        let ticks = (0..=high.floor() as usize)
            .map(|nines| {
                let label = match nines {
                    0 => "0".to_owned(),
                    1 => "90".to_owned(),
                    2 => "99".to_owned(),
                    n => format!("99.{}", "9".repeat(n - 2)),
                };
                Tick {
                    value: nines as f64,
                    label: Some(Label::Text(label)),
                }
            })
            .collect();
        Self {
            scale: Scale::Linear,
            low: 0.0,
            high,
            from: 0.0,
            to: 1.0,
            ticks,
            title,
            list: None,
        }
    }

    /// Returns the pixel of `value`. Values beyond an end are mapped to that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Log => {
                let value = value.max(self.low);
                (value / self.low).ln() / (self.high / self.low).ln()
            }
            Scale::Linear | Scale::Auto => (value - self.low) / (self.high - self.low),
        };
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        self.from + share * (self.to - self.from)
    }
}

/// Returns the smallest of 1, 2, 5, 10 … at or above `value`.
pub(super) fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    for factor in [1.0, 2.0, 5.0, 10.0] {
        // Because of the tolerance, 10 stays 10 despite rounding errors in the logarithm.
        if factor * power >= value * (1.0 - 1e-9) {
            return tidy(factor * power);
        }
    }
    10.0 * power
}

fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    for factor in [10.0, 5.0, 2.0] {
        if factor * power <= value * (1.0 + 1e-9) {
            return tidy(factor * power);
        }
    }
    power
}

/// Removes the trailing digits that floating-point arithmetic adds.
fn tidy(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

/// Returns ticks with labels at decades and without labels between them. If the axis spans at most
/// about two decades, 1, 2 and 5 have labels as well; if it spans at most six, both ends have.
fn log_ticks(low: f64, high: f64) -> Vec<Tick> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let few = (high / low).log10() < 2.2;
    let ends = (high / low).log10() < 6.0;
    let at_end = |value: f64| (value / low - 1.0).abs() < 1e-9 || (value / high - 1.0).abs() < 1e-9;
    let long = high > 99_999.0 || low < 0.001;
    let mut ticks = Vec::new();
    for exponent in first..=last {
        for factor in 1..10 {
            let value = tidy(f64::from(factor) * 10f64.powi(exponent));
            if value < low * (1.0 - 1e-9) || value > high * (1.0 + 1e-9) {
                continue;
            }
            let named =
                factor == 1 || (few && (factor == 2 || factor == 5)) || (ends && at_end(value));
            let label = named.then(|| {
                if long && factor == 1 {
                    power_label(exponent)
                } else {
                    Label::Text(number(value, value))
                }
            });
            ticks.push(Tick { value, label });
        }
    }
    ticks
}

/// Returns 1 and 10 as numbers, and larger values as powers.
fn power_label(exponent: i32) -> Label {
    match exponent {
        0 => Label::Text("1".to_owned()),
        1 => Label::Text("10".to_owned()),
        _ => Label::Power(exponent),
    }
}

/// Formats a number with as many decimals as its step has.
fn number(value: f64, step: f64) -> String {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    if decimals == 0 && value < 1e15 {
        return grouped(value.round() as u64);
    }
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<String> {
        let labels = axis.ticks.iter().filter_map(|tick| tick.label.clone());
        labels
            .map(|label| match label {
                Label::Text(text) => text,
                Label::Power(exponent) => format!("e{exponent}"),
            })
            .collect()
    }

    #[test]
    fn ends_are_round() {
        let axis = Axis::linear(153.0, String::new());
        assert_eq!(axis.high, 160.0);
        assert_eq!(
            names(&axis),
            ["0", "20", "40", "60", "80", "100", "120", "140", "160"]
        );
        assert_eq!(Axis::linear(10.0, String::new()).high, 10.0);
        assert_eq!(names(&Axis::linear(0.7, String::new()))[1], "0.1");
        assert_eq!(Axis::linear(0.0, String::new()).high, 1.0);
    }

    #[test]
    fn log_axes_name_their_decades() {
        assert_eq!(
            names(&Axis::log(2.8, 150.0, String::new())),
            ["2", "5", "10", "20", "50", "100", "200"]
        );
        assert_eq!(
            names(&Axis::log(1.0, 9_000.0, String::new())),
            ["1", "10", "100", "1,000", "10,000"]
        );
        assert_eq!(
            names(&Axis::counts(52_000.0, String::new())),
            ["1", "10", "e2", "e3", "e4", "e5"]
        );
        let flat = Axis::log(5.0, 5.0, String::new());
        assert!(flat.high > flat.low);
    }

    #[test]
    fn a_range_begins_near_its_least_value() {
        let axis = Axis::range(3.1, 4.6, String::new());
        assert_eq!((axis.low, axis.high), (3.0, 5.0));
        // A variation of one percent, which is mere noise, covers only a small part of the colours.
        let axis = Axis::range(5.00, 5.05, String::new());
        assert!(axis.at(5.05) < 0.06, "{axis:?}");
        assert_eq!(Axis::range(0.0, 0.0, String::new()).high, 1.0);
    }

    #[test]
    fn nines_end_where_the_samples_do() {
        let axis = Axis::nines(5.08, String::new());
        assert_eq!(axis.high, 5.5);
        assert_eq!(names(&axis), ["0", "90", "99", "99.9", "99.99", "99.999"]);
    }

    proptest::proptest! {
        #[test]
        fn every_value_lies_within_the_axis(min in 0.0f64..1e13, max in 0.0f64..1e13, value in -1.0f64..1e14) {
            for mut axis in [
                Axis::linear(max, String::new()),
                Axis::log(min, max, String::new()),
                Axis::counts(max, String::new()),
                Axis::span(max, String::new()),
                Axis::range(min.min(max), max, String::new()),
            ] {
                (axis.from, axis.to) = (400.0, 20.0);
                let pixel = axis.at(value);
                proptest::prop_assert!((20.0..=400.0).contains(&pixel), "{axis:?} {pixel}");
                proptest::prop_assert!(axis.high >= max * (1.0 - 1e-9), "{axis:?}");
                proptest::prop_assert!(!axis.ticks.is_empty() && axis.ticks.len() < 250);
            }
        }
    }
}
