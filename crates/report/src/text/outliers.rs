//! The outliers of a recording, a line each.

use punctual_model::{Explanation, Outlier, Recording};

use super::TextStyle;
use super::table::{self, Column};
use crate::clean::{clean, shorten};
use crate::figures;
use crate::tables;

/// How many outliers are listed, the worst of them.
const WORST: usize = 20;

/// What was found out about the outliers of a recording: how many there were,
/// the causes of all together, and the worst ones.
pub fn outliers(recording: &Recording, explanation: &Explanation, style: &TextStyle) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&figures::explained_text(explanation));
    for shown in tables::of_explanation(explanation) {
        line("");
        line(&shown.title);
        let columns: Vec<Column> = shown
            .columns
            .iter()
            .map(|column| match column.number {
                true => Column::right(&column.title, 0),
                false => Column::left(&column.title, 0).cut_to(20),
            })
            .collect();
        for row in table::lines(&columns, shown.rows, style.columns(), *style) {
            line(&row);
        }
    }
    if explanation.outliers.is_empty() {
        return out;
    }
    line("");
    let mut worst: Vec<&Outlier> = explanation.outliers.iter().collect();
    worst.sort_by_key(|outlier| (std::cmp::Reverse(outlier.latency_ns), outlier.number));
    worst.truncate(WORST);
    let beyond = explanation.outliers.len() - worst.len();
    let columns = [
        Column::right("outlier", 0),
        Column::left("time (UTC)", 0),
        Column::left("where", 0),
        Column::right("latency", 0),
        Column::left("culprit", 0).cut_to(20),
    ];
    let rows = worst.into_iter().map(|outlier| {
        vec![
            outlier.number.to_string(),
            figures::time_of_day(outlier.time),
            shorten(&figures::place(recording, outlier.thread, outlier.cpu), 24),
            outlier.latency_ns.to_string(),
            clean(&outlier.blame.culprit).into_owned(),
        ]
    });
    for row in table::lines(&columns, rows.collect(), style.columns(), *style) {
        line(&row);
    }
    if beyond > 0 {
        let more = figures::counted(beyond as u64, "further outlier", "further outliers");
        line(&format!("and {more}"));
    }
    out
}
