//! `monitor snapshot`: stores the recent data that the service still has in memory, after a user
//! has noticed an incident.

use anyhow::{Result, bail, ensure};
use jiff::Timestamp;
use punctual_model::{Nanos, Note, RecordingId};
use punctual_monitor::{Clock, Serving, StoredSnapshot, SystemClock, ask, await_kept, serving};
use punctual_report::{document, text};

use crate::context::Context;
use crate::exit::Exit;
use crate::output;

pub(super) fn snapshot(note: Option<&str>, context: &Context) -> Result<Exit> {
    let store = context.store_to_change()?;
    let path = store.path().display();
    match serving(&store) {
        Serving::Service => {}
        Serving::Nobody => bail!("no monitor service uses {path}: nothing is watched"),
        Serving::Unknown(why) => bail!("it is unknown which service uses {path}: {why}"),
    }
    let machine = punctual_host::Host::live().machine();
    let offered =
        StoredSnapshot::read(&store, &machine)?.unwrap_or(StoredSnapshot::offering(true, false));
    ensure!(
        offered.windows || offered.flight,
        "nothing is watched: the plan of the service has neither [watch] nor [flight]"
    );
    let now = Timestamp::now();
    ask(&store)?;
    let (windows, kept) = await_kept(&store, &machine, &offered, now)?;
    store.put_note(&Note {
        id: RecordingId::new(),
        recording: None,
        series: None,
        machine: None,
        at: now,
        text: text_of(note, kept.as_ref()),
        author: std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()),
        written: now,
    })?;
    if let Some(windows) = &windows {
        let shown = document::wake_windows(windows, &SystemClock.zone());
        output::print(&text::render(&shown, &context.style()))?;
    }
    if let Some(kept) = &kept {
        say_kept(kept)?;
    }
    let missing = [
        (offered.windows && windows.is_none()).then_some(
            "the service stored no window of wake-ups: watching was refused (see punctual \
             monitor slots --series watch)",
        ),
        (offered.flight && kept.is_none()).then_some(
            "the service did not save the trace events \
            in time",
        ),
    ];
    let mut complete = kept.is_none_or(|kept| kept.failed.is_none());
    for text in missing.into_iter().flatten() {
        output::note(text);
        complete = false;
    }
    Ok(if complete { Exit::Done } else { Exit::Failed })
}

fn text_of(note: Option<&str>, kept: Option<&StoredSnapshot>) -> String {
    let note = note.map_or_else(|| "snapshot".to_owned(), |text| format!("snapshot: {text}"));
    match kept.and_then(|kept| kept.file.as_deref()) {
        Some(file) => format!("{note} ({file})"),
        None => note,
    }
}

fn say_kept(kept: &StoredSnapshot) -> Result<()> {
    match (&kept.file, &kept.failed) {
        (Some(file), _) => output::print(&format!("\n{}\n", line_of(file, kept.covers_ns))),
        (None, Some(why)) => {
            output::note(&format!("the trace events are not kept: {why}"));
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

fn line_of(file: &str, covers: Nanos) -> String {
    format!("trace events of the last {covers}: {file}\nread them with: trace-cmd report -i {file}")
}
