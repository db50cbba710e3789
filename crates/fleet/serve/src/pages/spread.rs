//! Figures of several groups, shown one below the other on a shared logarithmic axis.

use maud::{Markup, html};
use punctual_model::{Nanos, sanitize};

/// The figures of a group.
pub(super) struct Spread {
    pub(super) name: String,
    /// The figures, largest first.
    pub(super) figures: Vec<Nanos>,
}

impl Spread {
    /// Returns the median, which is the mean of the two middle figures if their number is even.
    pub(super) fn median(&self) -> Nanos {
        let half = self.figures.len() / 2;
        let at = |place: usize| self.figures.get(place).map_or(0, |one| one.0);
        Nanos(match self.figures.len() % 2 {
            0 => at(half.saturating_sub(1)).midpoint(at(half)),
            _ => at(half),
        })
    }

    /// Returns the figure at a fraction, counted from the smallest.
    pub(super) fn at(&self, share: f64) -> Nanos {
        let last = self.figures.len().saturating_sub(1);
        let place = last - (share * last as f64).round() as usize;
        self.figures.get(place).copied().unwrap_or_default()
    }
}

const WIDTH: f64 = 800.0;
const LEFT: f64 = 210.0;
const ROW: f64 = 30.0;
/// Maximum number of groups in the plot. The table has all of them.
const MOST: usize = 20;
/// With more machines than this, only the box is drawn.
const DOTS: usize = 200;
/// Maximum length of a name, in characters.
const NAME: usize = 30;

/// Draws each group as dots, a box from p25 to p75, and a line at the median.
pub(super) fn spread(groups: &[Spread]) -> Markup {
    let shown = &groups[..groups.len().min(MOST)];
    let all = || shown.iter().flat_map(|group| &group.figures);
    let (Some(least), Some(most)) = (all().min(), all().max()) else {
        return html! { p { "No figures." } };
    };
    // The axis covers at least a factor of four, so that it has at least one label.
    let (least, most) = (least.0.max(1) as f64, most.0.max(1) as f64);
    let room = (4.0 * least / most).sqrt().max(1.3);
    let (low, high) = ((least / room).ln(), (most * room).ln());
    let x = |ns: Nanos| {
        let share = ((ns.0.max(1) as f64).ln() - low) / (high - low);
        format!("{:.1}", LEFT + share * (WIDTH - LEFT - 30.0))
    };
    let height = ROW * shown.len() as f64 + 40.0;
    let bottom = height - 28.0;
    html! {
        figure {
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" font-family="sans-serif" font-size="12" {
                title { "Figures of the machines, by group" }
                @for ns in ticks(low.exp(), high.exp()) {
                    line x1=(x(ns)) x2=(x(ns)) y1="4" y2=(bottom) stroke="#d0d0d0" {}
                    text x=(x(ns)) y=(bottom + 16.0) text-anchor="middle" { (ns) }
                }
                @for (place, group) in shown.iter().enumerate() {
                    @let y = ROW * (place as f64 + 0.5) + 6.0;
                    text x="4" y=(y + 4.0) { (short(&group.name)) }
                    line x1=(x(group.at(0.0))) x2=(x(group.at(1.0))) y1=(y) y2=(y) stroke="#555" {}
                    polygon points=(corners(&x(group.at(0.25)), &x(group.at(0.75)), y)) fill="#9ecae1" {}
                    @if group.figures.len() <= DOTS { @for figure in &group.figures {
                        circle cx=(x(*figure)) cy=(y) r="3" fill="#3b528b" fill-opacity="0.6" {}
                    } }
                    line x1=(x(group.median())) x2=(x(group.median())) y1=(y - 9.0) y2=(y + 9.0) stroke="#a00028" stroke-width="2" {}
                }
            }
            figcaption {
                "Dots are machines, boxes span p25 to p75, and red lines are medians. The scale \
                 is logarithmic."
                @if groups.len() > MOST { " The first " (MOST) " of " (groups.len()) " groups." }
            }
        }
    }
}

fn corners(from: &str, to: &str, y: f64) -> String {
    let (top, bottom) = (y - 7.0, y + 7.0);
    format!("{from},{top} {to},{top} {to},{bottom} {from},{bottom}")
}

fn short(name: &str) -> String {
    let name = sanitize(name);
    if name.chars().count() > NAME {
        name.chars().take(NAME - 1).chain(['…']).collect()
    } else {
        name.into_owned()
    }
}

/// Returns 1, 2 and 5 in each decade, or only powers of ten if there are many decades.
fn ticks(low: f64, high: f64) -> Vec<Nanos> {
    let factors: &[f64] = if high / low < 200.0 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all = (first..=last).flat_map(|power| {
        let each = factors.iter();
        each.map(move |factor| factor * 10f64.powi(power))
    });
    all.filter(|ns| *ns >= low.max(1.0) && *ns <= high)
        .map(|ns| Nanos(ns.round() as u64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_share() {
        let spread = Spread {
            name: String::new(),
            figures: [50, 40, 30, 20, 10].map(Nanos).into(),
        };
        assert_eq!(
            [0.0, 0.25, 0.5, 1.0].map(|s| spread.at(s).0),
            [10, 20, 30, 50]
        );
        assert_eq!(ticks(900.0, 2_500.0), [Nanos(1_000), Nanos(2_000)]);
    }
}
