//! The blocks of an experiment in measuring order.

use punctual_model::Experiment;

use super::axis::Axis;
use super::curves::COLOURS;
use super::frame::{Annotation, Entry, Frame};
use super::{Heading, Plot, PlotOptions};
use crate::ReportError;

/// Minimum length of the axis, which ensures that its ticks are whole slots.
const FEWEST: u64 = 10;

/// Draws a bar for each block of an experiment: late slots upwards, blocks in measuring order from
/// left to right, and a colour for each condition.
///
/// # Errors
/// Returns an error if the experiment has no blocks, or if the plot cannot be drawn at this size.
pub fn strip(experiment: &Experiment, options: &PlotOptions) -> Result<Plot, ReportError> {
    let PlotOptions { width, height, .. } = *options;
    if !(320..=8000).contains(&width) || !(240..=8000).contains(&height) {
        return Err(ReportError::Size { width, height });
    }
    let blocks = &experiment.blocks;
    if blocks.is_empty() {
        return Err(ReportError::NoRecording);
    }
    let heading = match &options.heading {
        Heading::Auto => "Late slots of each block".to_owned(),
        Heading::None => String::new(),
        Heading::Text(text) => text.clone(),
    };
    let most = blocks.iter().map(|block| block.late).max().unwrap_or(0);
    let x = Axis::span(blocks.len() as f64, "Block".to_owned());
    let y = Axis::linear(most.max(FEWEST) as f64, "Late slots".to_owned());
    let colour = |arm: usize| COLOURS[arm % COLOURS.len()];
    let legend: Vec<Entry> = (experiment.plan.arms.iter().enumerate())
        .map(|(place, arm)| Entry {
            mark: Annotation::Swatch(colour(place)),
            text: arm.name.clone(),
        })
        .collect();
    let mut frame = Frame::new((heading, String::new()), x, y, &legend, options);
    for arm in 0..experiment.plan.arms.len() {
        let own = blocks.iter().enumerate();
        let own = own.filter(|(_, block)| block.arm as usize == arm);
        let cells = own.map(|(place, block)| {
            let (left, right) = (place as f64 + 0.1, place as f64 + 0.9);
            let [left, right] = [left, right].map(|value| frame.x.at(value));
            let [bottom, top] = [0.0, block.late as f64].map(|value| frame.y.at(value));
            ((left, top), (right - left, bottom - top))
        });
        let cells = cells.collect();
        frame.canvas.cells(cells, colour(arm));
    }
    Ok(frame.finish())
}
