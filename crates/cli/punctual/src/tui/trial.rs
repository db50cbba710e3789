//! Trying the remedy of an outlier: an experiment with the setting against its main cause.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_model::{Blame, sanitize};

/// How the view of a run leads to an experiment.
#[derive(Clone)]
pub(crate) struct Trial {
    /// Options of the experiment, without the setting.
    pub(crate) options: Vec<String>,
    /// Returns the settings against the main cause, as `NAME=VALUE`, that this machine lacks.
    pub(crate) against: fn(&Blame) -> Vec<String>,
    chosen: Arc<Mutex<Option<Vec<String>>>>,
}

impl Trial {
    /// `options`: those of the experiment, without the setting.
    pub(crate) fn new(options: Vec<String>, against: fn(&Blame) -> Vec<String>) -> Self {
        Self {
            options,
            against,
            chosen: Arc::default(),
        }
    }

    /// Returns the command line of the experiment that the user has chosen, without the program.
    pub(crate) fn chosen(&self) -> Option<Vec<String>> {
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.take()
    }

    fn choose(&self, words: Vec<String>) {
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
}

/// A question to the user.
pub(super) struct Question {
    trial: Trial,
    cause: String,
    /// The setting that is tried: the first one against the cause.
    setting: Option<String>,
}

impl Question {
    /// Reads the current settings, which takes a moment.
    pub(super) fn new(trial: &Trial, blame: &Blame) -> Self {
        Self {
            trial: trial.clone(),
            cause: sanitize(&blame.culprit()).into_owned(),
            setting: (trial.against)(blame).into_iter().next(),
        }
    }

    fn words(&self, setting: &str) -> Vec<String> {
        let first = ["experiment", "--set", setting].map(str::to_owned);
        first
            .into_iter()
            .chain(self.trial.options.iter().cloned())
            .collect()
    }

    /// Returns the text of the question.
    pub(super) fn paragraphs(&self) -> Vec<String> {
        let cause = format!("main cause: {}", self.cause);
        let Some(setting) = &self.setting else {
            let none = "Nothing to try: either no setting that punctual can change is against this \
                        cause, or all of them already have their recommended values.";
            return vec![cause, String::new(), none.to_owned()];
        };
        vec![
            cause,
            format!("setting to try: {setting}"),
            String::new(),
            "This ends the run. An experiment then measures again, with and without the setting, in \
             random order. It says whether the setting helps, and restores the old value, also if it \
             is interrupted."
                .to_owned(),
            String::new(),
            format!("punctual {}", self.words(setting).join(" ")),
            String::new(),
            "Start it? y: yes, esc: no".to_owned(),
        ]
    }

    /// Chooses the experiment. Returns whether there is one.
    pub(super) fn agree(&self) -> bool {
        let Some(setting) = &self.setting else {
            return false;
        };
        self.trial.choose(self.words(setting));
        true
    }
}
