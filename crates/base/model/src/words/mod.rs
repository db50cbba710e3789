//! English: turns causes, blames and kinds of shares into words. The data itself contains none,
//! except in output, where the words stand beside it.

mod advice;
mod blame;
mod cause;
mod gap;
mod hold;
mod scheduler;

use crate::{Blame, Explanation, Recording};

pub use advice::Advice;

impl Explanation {
    /// Adds the words of all causes, for output that contains them.
    pub fn put_into_words(&mut self) {
        for outlier in &mut self.outliers {
            outlier.blame.put_into_words();
        }
        for cause in &mut self.causes {
            cause.words = Some(cause.source.words());
        }
        for period in &mut self.periods {
            period.words = Some(period.source.words());
        }
    }
}

impl Recording {
    /// Returns the recording with all causes in words, for output.
    pub fn in_words(&self) -> Self {
        let mut shown = self.clone();
        shown.put_into_words();
        shown
    }

    /// Adds the words for all causes, for output.
    pub fn put_into_words(&mut self) {
        let largest = self.top_samples.iter_mut();
        largest
            .filter_map(|sample| sample.blame.as_mut())
            .for_each(Blame::put_into_words);
        if let Some(explanation) = &mut self.explanation {
            explanation.put_into_words();
        }
    }
}

#[cfg(test)]
mod tests;
