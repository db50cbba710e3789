//! The blocks of an experiment: in measuring order, and by the power of the machine.

use punctual_model::{Arm, Experiment, ExperimentBlock};

use super::axis::Axis;
use super::canvas::Colour;
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
    check(experiment, options)?;
    let blocks = &experiment.blocks;
    let heading = heading("Late slots of each block", options);
    let most = blocks.iter().map(|block| block.late).max().unwrap_or(0);
    let x = Axis::span(blocks.len() as f64, "Block".to_owned());
    let y = Axis::linear(most.max(FEWEST) as f64, "Late slots".to_owned());
    let mut frame = Frame::new((heading, String::new()), x, y, &legend(experiment), options);
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

/// Draws a mark for each block of an experiment: late slots upwards, the mean power of the machine
/// to the right, and a colour for each condition.
///
/// # Errors
/// Returns an error if the power of a block is unknown, if the experiment has no blocks, or if the
/// plot cannot be drawn at this size.
pub fn power(experiment: &Experiment, options: &PlotOptions) -> Result<Plot, ReportError> {
    check(experiment, options)?;
    let watts = |block: &ExperimentBlock| Some(block.milliwatts? as f64 / 1e3);
    let each: Option<Vec<f64>> = experiment.blocks.iter().map(watts).collect();
    let each = each.ok_or(ReportError::NoPower)?;
    let heading = heading("Late slots over power", options);
    let (low, high) = (each.iter()).fold((f64::MAX, 0.0f64), |(low, high), value| {
        (low.min(*value), high.max(*value))
    });
    let most = experiment.blocks.iter().map(|block| block.late).max();
    // Blocks of equal power also need an axis of some width.
    let margin = ((high - low) * 0.1).max(0.5);
    let x = Axis::range(
        (low - margin).max(0.0),
        high + margin,
        "Power (W)".to_owned(),
    );
    let top = most.unwrap_or(0).max(FEWEST);
    let y = Axis::linear(top as f64, "Late slots".to_owned());
    let entries = legend(experiment);
    let mut frame = Frame::new((heading, String::new()), x, y, &entries, options);
    for arm in 0..experiment.plan.arms.len() {
        let own = experiment.blocks.iter().zip(&each);
        let own = own.filter(|(block, _)| block.arm as usize == arm);
        let marks = own.map(|(block, watts)| {
            let (x, y) = (frame.x.at(*watts), frame.y.at(block.late as f64));
            ((x - MARK / 2.0, y - MARK / 2.0), (MARK, MARK))
        });
        let marks = marks.collect();
        frame.canvas.cells(marks, colour(arm));
    }
    Ok(frame.finish())
}

/// Size of the mark of a block.
const MARK: f64 = 8.0;

fn check(experiment: &Experiment, options: &PlotOptions) -> Result<(), ReportError> {
    let PlotOptions { width, height, .. } = *options;
    if !(320..=8000).contains(&width) || !(240..=8000).contains(&height) {
        return Err(ReportError::Size { width, height });
    }
    if experiment.blocks.is_empty() {
        return Err(ReportError::NoRecording);
    }
    Ok(())
}

fn heading(usual: &str, options: &PlotOptions) -> String {
    match &options.heading {
        Heading::Auto => usual.to_owned(),
        Heading::None => String::new(),
        Heading::Text(text) => text.clone(),
    }
}

fn colour(arm: usize) -> Colour {
    COLOURS[arm % COLOURS.len()]
}

/// Returns an entry for each condition.
fn legend(experiment: &Experiment) -> Vec<Entry> {
    let arms = experiment.plan.arms.iter().enumerate();
    let entry = |(place, arm): (usize, &Arm)| Entry {
        mark: Annotation::Swatch(colour(place)),
        text: arm.name.clone(),
    };
    arms.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use super::*;

    #[test]
    fn blocks_are_drawn_by_their_power() {
        let mut one = testing::experiment(2, 1);
        let options = PlotOptions::default();
        assert!(matches!(
            power(&one, &options),
            Err(ReportError::NoRecording)
        ));
        for arm in 0..2 {
            let block = testing::experiment_block(0, arm, 30 - u64::from(arm) * 20, 5);
            one.blocks.push(ExperimentBlock {
                milliwatts: Some(12_000 + u64::from(arm) * 3_000),
                ..block
            });
        }
        let svg = power(&one, &options).unwrap().svg();
        for text in ["Power (W)", "Late slots", "arm 0", "arm 1"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        one.blocks[1].milliwatts = None;
        assert!(matches!(power(&one, &options), Err(ReportError::NoPower)));
    }
}
