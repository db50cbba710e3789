//! The legend of the curves: first the coloured ones, then all others.

use super::PlotOptions;
use super::canvas::text_width;
use super::curves::{Curves, Others};
use super::frame::{Annotation, ENTRY, Entry, SMALL, SMALL_ENTRY, legend_width};
use crate::wrap::wrap;

/// Distance between two texts of a row.
const GAP: f64 = 10.0;

/// Returns the entries of all curves for a plot of the given height.
pub(super) fn legend(curves: &Curves, height: f64, options: &PlotOptions) -> Vec<Entry> {
    // Curves are drawn from back to front, but listed from front to back.
    let mut entries: Vec<Entry> = curves
        .list
        .iter()
        .rev()
        .filter_map(|curve| {
            let text = curve.name.clone()?;
            let mark = Annotation::Line(curve.stroke);
            Some(Entry { mark, text })
        })
        .collect();
    if let Some(others) = &curves.others {
        let left = height - ENTRY * (entries.len() + 1) as f64;
        entries.push(Entry {
            mark: Annotation::Line(others.stroke),
            text: others.title.clone(),
        });
        let rows = (left / SMALL_ENTRY).max(0.0) as usize;
        entries.extend(listed(others, rows, legend_width(options)));
    }
    entries
}

/// Returns the other curves in columns, or only their CPUs if there is not enough space.
fn listed(others: &Others, rows: usize, width: f64) -> Vec<Entry> {
    let widths = others.each.iter().map(|text| text_width(text, SMALL));
    let each = widths.fold(0.0, f64::max) + GAP;
    let columns = ((width / each) as usize).max(1);
    if others.each.len() <= rows * columns {
        // Uses as few columns as possible, filled from top to bottom.
        let columns = others.each.len().div_ceil(rows.max(1)).max(1);
        let high = others.each.len().div_ceil(columns);
        return (0..high)
            .map(|row| {
                let texts = others.each.iter().skip(row).step_by(high);
                Entry::columns(texts.cloned().collect(), each)
            })
            .collect();
    }
    let Some(cpus) = &others.cpus else {
        return Vec::new();
    };
    // A list of CPUs has no spaces for line breaks.
    let text = cpus.to_string().replace(',', ", ");
    let usual = text_width("0", SMALL);
    let lines = wrap(&text, (width / usual) as usize);
    lines
        .into_iter()
        .map(|line| {
            let width = text_width(&line, SMALL);
            Entry::columns(vec![line], width + GAP)
        })
        .collect()
}
