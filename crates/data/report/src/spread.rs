//! How latencies are spread, in one line of blocks.

use punctual_model::Nanos;

/// Where the steps of a decade begin, in tenths.
const COARSE: &[u64] = &[10, 20, 50];
/// The same where there is room: nearly equal ratios.
const FINE: &[u64] = &[10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
/// With more decades than this, steps are coarse.
const FINE_UP_TO: usize = 5;
/// The range of a histogram has so many decades.
const DECADES: usize = 12;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A logarithmic axis of steps, each of which is one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Where the first decade begins, a power of ten in ns.
    from_ns: u64,
    decades: usize,
    steps: &'static [u64],
}

impl Spread {
    /// From 0.1 µs to 1 s, for waits of any thread.
    pub(super) const WAITS: Self = Self {
        from_ns: 100,
        decades: 7,
        steps: COARSE,
    };

    /// The decades from `min` to `max`.
    pub(super) fn between(min: Nanos, max: Nanos) -> Self {
        let first = min.0.max(1).ilog10();
        let last = max.0.max(min.0).max(1).ilog10();
        let decades = ((last - first) as usize + 1).min(DECADES);
        Self {
            from_ns: 10u64.pow(first),
            decades,
            steps: if decades > FINE_UP_TO { COARSE } else { FINE },
        }
    }

    /// The same with few steps a decade, for where there is little room.
    pub(super) const fn coarse(self) -> Self {
        Self {
            steps: COARSE,
            ..self
        }
    }

    /// Each decade named where it begins. A name that is longer than its decade
    /// takes the next one's room.
    pub(super) fn scale(&self) -> String {
        let mut text = String::new();
        for decade in 0..self.decades {
            let place = decade * self.steps.len();
            let used = text.chars().count();
            if used <= place {
                text.extend(std::iter::repeat_n(' ', place - used));
                text.push_str(&name(self.from_ns.saturating_mul(10u64.pow(decade as u32))));
                text.push(' ');
            }
        }
        text.trim_end().to_owned()
    }

    /// A block for each step, as high as the logarithm of its count, so that a
    /// single late one is seen beside a million others. What lies beyond an end
    /// is in the last step there.
    pub(super) fn picture(&self, rows: impl Iterator<Item = (Nanos, u64)>) -> String {
        let mut counts = vec![0u64; self.decades * self.steps.len()];
        for (value, count) in rows {
            if let Some(slot) = counts.get_mut(self.step_of(value)) {
                *slot = slot.saturating_add(count);
            }
        }
        let highest = counts.iter().copied().max().unwrap_or(0);
        let height = |count: u64| (count as f64 + 1.0).ln();
        counts
            .iter()
            .map(|count| match count {
                0 => ' ',
                _ => {
                    let part = height(*count) / height(highest);
                    BLOCKS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1]
                }
            })
            .collect()
    }

    /// The step that a value belongs to.
    fn step_of(&self, value: Nanos) -> usize {
        let mut edges = (0..self.decades as u32).flat_map(|decade| {
            let begin = self.from_ns.saturating_mul(10u64.pow(decade));
            (self.steps.iter()).map(move |tenths| begin.saturating_mul(*tenths) / 10)
        });
        let above = edges.position(|edge| value.0 < edge);
        let beyond = above.unwrap_or(self.decades * self.steps.len());
        beyond.saturating_sub(1)
    }
}

/// A power of ten of nanoseconds: `0.1µs`, `10ms`.
fn name(ns: u64) -> String {
    match ns {
        0..100 => format!("{ns}ns"),
        100..1_000 => format!("0.{}µs", ns / 100),
        1_000..1_000_000 => format!("{}µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_stands_in_its_step() {
        for (ns, step) in [
            (0, 0),
            (100, 0),
            (199, 0),
            (200, 1),
            (999, 2),
            (1_000, 3),
            (1_000_000, 12),
            (999_999_999, 20),
            (u64::MAX, 20),
        ] {
            assert_eq!(Spread::WAITS.step_of(Nanos(ns)), step, "{ns}");
        }
    }

    #[test]
    fn the_scale_names_decades() {
        assert_eq!(Spread::WAITS.scale(), "0.1µs 10µs  1ms   100ms");
        let fine = Spread::between(Nanos(2_300), Nanos(150_000));
        assert_eq!(fine.scale(), "1µs       10µs      100µs");
        assert_eq!(fine.steps.len() * fine.decades, 30);
        let whole = Spread::between(Nanos(0), Nanos(u64::MAX));
        assert_eq!(whole.decades, DECADES);
    }

    #[test]
    fn one_late_one_is_seen() {
        let spread = Spread::between(Nanos(1_000), Nanos(99_999));
        let rows = [(Nanos(2_000), 1_000_000), (Nanos(99_999), 1), (Nanos(5), 3)];
        let picture = spread.picture(rows.into_iter());
        assert_eq!(picture, "▁  █               ▁");
    }
}
