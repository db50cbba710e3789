//! Keeps an experiment on numbers in the store, with the recordings of its blocks.

use std::collections::BTreeMap;

use punctual_host::Host;
use punctual_model::{Experiment, ExperimentPlan, ExperimentState, NumbersExperiment, RecordingId};
use punctual_store::{ExperimentLease, Store};

use super::{Meter, NumbersRequest};
use crate::block_store::BlockStore;
use crate::error::TrialError;
use crate::trial::{draft, judge_recordings, lease};

/// An experiment in the store.
pub(super) struct Kept<'a> {
    pub(super) blocks: BlockStore<'a>,
    experiment: Experiment,
    _lease: Option<ExperimentLease>,
}

impl<'a> Kept<'a> {
    /// Stores the experiment before its first block.
    pub(super) fn begin(
        asked: &NumbersRequest,
        numbers: &NumbersExperiment,
        store: &'a Store,
        host: &Host,
    ) -> Result<Self, TrialError> {
        let label = asked.label.clone();
        let mut experiment = draft(plan(asked), label, asked.command_line.clone());
        experiment.started = numbers.started;
        experiment.host.clone_from(&numbers.host);
        let lease = lease(&experiment, Some(store), host)?;
        let mut kept = Self {
            blocks: BlockStore {
                store,
                experiment: experiment.id,
            },
            experiment,
            _lease: lease,
        };
        kept.save(numbers, ExperimentState::Running)?;
        Ok(kept)
    }

    pub(super) fn save(
        &mut self,
        numbers: &NumbersExperiment,
        state: ExperimentState,
    ) -> Result<(), TrialError> {
        self.experiment.state = state;
        self.experiment.sentence.clone_from(&numbers.sentence);
        self.experiment.numbers = Some(Box::new(numbers.clone()));
        Ok(self.blocks.store.put_experiment(&self.experiment)?)
    }

    /// Stores the result, and returns the ID. An experiment that was refused before its first block
    /// is removed.
    pub(super) fn end(
        mut self,
        numbers: &NumbersExperiment,
        state: ExperimentState,
    ) -> Result<Option<RecordingId>, TrialError> {
        let (store, id) = (self.blocks.store, self.experiment.id);
        if numbers.blocks.is_empty() {
            store.delete_experiment(id)?;
            return Ok(None);
        }
        self.save(numbers, state)?;
        judge_recordings(&self.experiment, Some(store))?;
        Ok(Some(id))
    }
}

fn plan(asked: &NumbersRequest) -> ExperimentPlan {
    let jobs = match &asked.meter {
        Meter::Command { .. } => None,
        Meter::Jobs(request) => Some(request),
    };
    ExperimentPlan {
        arms: asked.arms.clone(),
        probe: jobs.map_or("numbers", |_| "jobs").to_owned(),
        parameters: BTreeMap::new(),
        cpus: None,
        policy: None,
        priority: None,
        loads: Vec::new(),
        threshold_ns: jobs.map(|request| request.requirement.budget_ns),
        time_ns: asked.time,
        rounds: asked.rounds,
        block_ns: jobs.map(|request| request.duration),
        wash_out_ns: asked.wash_out,
        deadline_ns: asked.deadline,
        seed: asked.seed,
        ends_early: false,
        ranks_only: false,
    }
}
