//! Tests the reading of trace files.

mod babeltrace;
mod ctf;
mod dat;
mod dat_forms;
mod dat_hostile;
mod join;
mod made;
mod made_ctf;
mod made_perf;
mod perf;
mod perfetto;
mod same;
#[path = "../sound/mod.rs"]
mod sound;
mod text;
