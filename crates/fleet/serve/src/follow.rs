//! Periodic work of the server: judging all series, polling for alerts, pushing metrics.

use crate::alerts::Watch;
use crate::metrics::push::Push;
use crate::state::App;

/// The interval is divided by this number to get the time for judging series without new
/// recordings.
const SHARE: u32 = 10;

/// Judges all series, raises alerts and pushes metrics until the runtime ends.
pub(crate) async fn follow(app: App) {
    let every = app.config.every;
    let new_watch = || {
        let alerts = app.config.alerts.clone();
        alerts.map(|alerts| Watch::new(alerts, app.config.silent_after))
    };
    let new_push = || app.config.push.clone().map(Push::new);
    let (mut watch, mut push) = (new_watch(), new_push());
    loop {
        let moved = (watch.take(), push.take());
        let looked = app
            .work(move |app| {
                let (mut watch, mut push) = moved;
                if let Some(trends) = &app.config.trends.0 {
                    let machines = app.collection.machines()?;
                    // The page of changes shows the error, because it reads the same data.
                    let _ = app.worse.judge(trends.as_ref(), &machines, every / SHARE);
                }
                if let Some(watch) = &mut watch {
                    watch.look(app.collection.as_ref(), &app.worse);
                }
                if let Some(push) = &mut push {
                    push.send_if_due(app);
                }
                Ok((watch, push))
            })
            .await;
        // After a panic, start again with a new state.
        (watch, push) = looked.unwrap_or_else(|_| (new_watch(), new_push()));
        tokio::time::sleep(every).await;
    }
}
