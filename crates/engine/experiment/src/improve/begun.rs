//! Searches and stages that were started earlier. A store may come from another machine, so only
//! searches and stages that this user started on this machine are continued.

use punctual_model::{Experiment, ImprovementState, RecordingId, Stage};
use punctual_store::Store;

use crate::error::TrialError;
use crate::own::OwnExperiments;

/// Returns an unfinished search from the store that this user started on this machine. This is the
/// newest one, or the one whose first experiment is named.
///
/// # Errors
/// Returns [`TrialError::Plan`] if there is no unfinished search, [`TrialError::Foreign`] if all of
/// them were started by another user or on another machine, and read errors.
pub fn unfinished(
    store: &Store,
    own: &OwnExperiments,
    selector: &str,
) -> Result<ImprovementState, TrialError> {
    let all = match selector {
        "last" => store.experiments()?,
        selector => vec![store.find_experiment(selector)?],
    };
    let is_open = |one: &&Experiment| one.improvement.as_ref().is_some_and(|state| !state.ended);
    let mut open = all.iter().filter(is_open).peekable();
    let newest = open.peek().copied();
    let found = open.find(|one| own.has(one)).or(newest).ok_or_else(|| {
        TrialError::Plan(
            "the store contains no unfinished search for settings: start one with punctual improve"
                .to_owned(),
        )
    })?;
    own.check(found)?;
    let state = found.improvement.as_deref().cloned();
    state.ok_or_else(|| {
        TrialError::Plan("the experiment is not part of a search for settings".to_owned())
    })
}

/// The stages of a search, both those that this process started and those started by earlier
/// processes.
pub(super) struct Begun<'a> {
    store: Option<&'a Store>,
    own: Option<&'a OwnExperiments>,
    here: Vec<RecordingId>,
}

impl<'a> Begun<'a> {
    pub(super) const fn new(store: Option<&'a Store>, own: Option<&'a OwnExperiments>) -> Self {
        Self {
            store,
            own,
            here: Vec::new(),
        }
    }

    /// Adds an entry for a stage that is about to start.
    ///
    /// # Errors
    /// Returns the errors of [`OwnExperiments::enter`].
    pub(super) fn enter(&mut self, experiment: &Experiment) -> Result<(), TrialError> {
        self.here.push(experiment.id);
        match (self.store, self.own) {
            (Some(_), Some(own)) => own.enter(experiment),
            _ => Ok(()),
        }
    }

    /// Returns a stage from the store, which must have been started by this process, or earlier by
    /// this user.
    ///
    /// # Errors
    /// Returns the errors of [`OwnExperiments::check`], and read errors.
    pub(super) fn stored(&self, id: Option<RecordingId>) -> Result<Option<Experiment>, TrialError> {
        let (Some(store), Some(id)) = (self.store, id) else {
            return Ok(None);
        };
        let Some(found) = (store.experiments()?.into_iter()).find(|one| one.id == id) else {
            return Ok(None);
        };
        match (self.here.contains(&id), self.own) {
            (true, _) => {}
            (false, Some(own)) => own.check(&found)?,
            (false, None) => return Err(TrialError::Foreign { id: id.short() }),
        }
        Ok(Some(found))
    }

    /// Removes the entries of these stages, because the search has ended.
    pub(super) fn forget(&self, stages: &[Stage]) {
        let ids = stages.iter().filter_map(|stage| stage.experiment);
        (self.own.into_iter()).for_each(|own| ids.clone().for_each(|id| own.forget(id)));
    }
}
