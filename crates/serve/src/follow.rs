//! What the server does by itself, again and again: judge all series, see what demands
//! attention, push metrics.

use crate::alerts::Watch;
use crate::metrics::push::Push;
use crate::state::App;

/// Series without new recordings are judged again in this part of the time.
const SHARE: u32 = 10;

/// Judges all series, raises alerts and pushes metrics; ends with the runtime.
pub(crate) async fn follow(app: App) {
    let every = app.config.every;
    let mut watch = app.config.alerts.clone().map(Watch::new);
    let mut push = app.config.push.clone().map(Push::new);
    loop {
        let moved = (watch.take(), push.take());
        let looked = app
            .work(move |app| {
                let (mut watch, mut push) = moved;
                if let Some(trends) = &app.config.trends.0 {
                    let machines = app.collection.machines()?;
                    // An error is shown by the page of the changes, which reads the same.
                    let _ = app.worse.judge(trends.as_ref(), &machines, every / SHARE);
                }
                if let Some(watch) = &mut watch {
                    watch.look(app);
                }
                if let Some(push) = &mut push {
                    push.send_if_due(app);
                }
                Ok((watch, push))
            })
            .await;
        // A fault of the program leaves them for the next time as at the start.
        (watch, push) = looked.unwrap_or_else(|_| {
            let config = &app.config;
            let watch = config.alerts.clone().map(Watch::new);
            (watch, config.push.clone().map(Push::new))
        });
        tokio::time::sleep(every).await;
    }
}
