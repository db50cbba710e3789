//! The types that are stored or printed as JSON.

use crate::cause::Cause;
use crate::{
    Accounting, Activities, Audit, ChangeAnnotation, Checkup, Experiment, FactSet, GroupFacts,
    HostFacts, Improvement, LintReport, LoadRecord, Note, NumbersExperiment, Origin, Outlier,
    Placement, Recording, RecordingLine, SeriesProof, Slot, StoredAudit, Suspension, ThreadRecord,
    TopSample, Topology, WakeWindow, Wakeups, Window, from_json, to_json,
};

to_json!(
    Accounting,
    Activities,
    Audit,
    Cause,
    ChangeAnnotation,
    Checkup,
    Experiment,
    FactSet,
    GroupFacts,
    HostFacts,
    Improvement,
    LintReport,
    LoadRecord,
    Note,
    NumbersExperiment,
    Origin,
    Outlier,
    Placement,
    Recording,
    RecordingLine,
    SeriesProof,
    Slot,
    StoredAudit,
    Suspension,
    ThreadRecord,
    TopSample,
    Topology,
    WakeWindow,
    Wakeups,
    Window,
);

from_json!(
    ChangeAnnotation,
    Experiment,
    GroupFacts,
    HostFacts,
    LoadRecord,
    Note,
    Origin,
    Outlier,
    Vec<Accounting>,
    Vec<ThreadRecord>,
    Vec<TopSample>,
    ThreadRecord,
    WakeWindow,
    Window,
);
