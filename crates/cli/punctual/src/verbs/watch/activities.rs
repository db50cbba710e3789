//! `watch --of`: watches interrupts, softirqs, works, timers and polls live.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use punctual_host::Host;
use punctual_model::{Activities, ActivityAxis, ActivityKind, Nanos};
use punctual_report::{document, text};
use punctual_session::ActivitySession;

use super::view::View;
use super::{FOR_EVER, REDRAW, TURN, Watch};
use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::running::{stop_flag, watching};

/// Watches activities of this kind until the time is over or Ctrl-C.
pub(super) fn run(
    watch: &Watch,
    kind: ActivityKind,
    axes: &[ActivityAxis],
    context: &Context,
) -> Result<Exit> {
    let stop = stop_flag()?;
    let host = Host::live();
    let mut session = ActivitySession::start(kind, watch.longest as usize, &host)?;
    let view = View::new(watch.quiet, watch.tui, &stop);
    let seen = observe(&mut session, watch.duration, &stop, |seen| {
        let others = seen.longest.len() + seen.most_delayed.len() + 14;
        view.draw(others, context, |rows| {
            document::activities(seen, axes, rows.min(watch.rows as usize))
        });
    })?;
    view.clear();
    if let Err(error) = session.stop() {
        output::note(&error.to_string());
    }
    if watch.json {
        output::print(&output::json(&seen))?;
    } else {
        let shown = document::activities(&seen, axes, watch.rows as usize);
        output::print(&text::render(&shown, &context.style()))?;
    }
    Ok(super::ended(stop.load(Ordering::Relaxed), watch.duration))
}

/// Watches until the time is over or `stop` is set. Returns the counts.
fn observe(
    session: &mut ActivitySession,
    duration: Option<Nanos>,
    stop: &AtomicBool,
    mut draw: impl FnMut(&Activities),
) -> Result<Activities> {
    let end = Instant::now() + duration.map_or(FOR_EVER, Duration::from);
    let mut drawn = Instant::now();
    loop {
        if drawn.elapsed() >= REDRAW {
            draw(&session.read()?);
            drawn = Instant::now();
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Ok(session.read()?);
        }
        let turn = Nanos::from(left.min(TURN));
        watching::wait(Some(turn), stop, || Ok(session.keep_up()?))?;
    }
}
