//! The distribution of latencies as one line of block characters.

use punctual_model::Nanos;

/// Lower edges of the bins in a decade, in tenths.
const COARSE: &[u64] = &[10, 20, 50];
/// Lower edges of the finer bins, which have nearly equal ratios.
const FINE: &[u64] = &[10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
/// If there are more decades than this, the bins are coarse.
const FINE_UP_TO: usize = 5;
/// The number of decades that a histogram covers.
const DECADES: usize = 12;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A logarithmic axis of bins, one character each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Start of the first decade, a power of ten in ns.
    from_ns: u64,
    decades: usize,
    steps: &'static [u64],
}

impl Spread {
    /// From 0.1 µs to 1 s, for the waits of any thread.
    pub(super) const WAITS: Self = Self {
        from_ns: 100,
        decades: 7,
        steps: COARSE,
    };

    /// Returns a logarithmic axis with the decades from `min` to `max`.
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

    /// Returns the same axis with coarse bins, for narrow spaces.
    pub(super) const fn coarse(self) -> Self {
        Self {
            steps: COARSE,
            ..self
        }
    }

    /// Returns the labels of the axis, each at the start of its decade. A label that is wider than
    /// its decade also takes up the space of the next decade.
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

    /// Draws a block for each bin. Its height is the logarithm of the count, so that a single
    /// sample is visible among a million others. Values outside the axis are counted in the first
    /// or last bin.
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

    /// Returns the index of the bin that contains `value`.
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

/// Formats a power of ten in nanoseconds: `0.1µs`, `10ms`.
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
