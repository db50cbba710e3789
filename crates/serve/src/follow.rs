//! All series, judged again and again.

use std::time::Duration;

use crate::state::App;
use crate::worse::is_worse;

/// How often all series are judged again: it takes seconds where there are many.
const AGAIN: Duration = Duration::from_secs(60);

/// Judges all series again and again; ends with the runtime.
pub(crate) async fn follow(app: App) {
    loop {
        // An error is shown by the page of the changes, which reads the same.
        let _ = app
            .work(|app| {
                let Some(trends) = &app.config.trends.0 else {
                    return Ok(());
                };
                let all = trends.series().unwrap_or_default();
                let worse = all.into_iter().filter_map(|one| {
                    let (trend, _) = trends.trend(&one).ok()?;
                    one.machine.filter(|_| is_worse(&trend))
                });
                app.worse.set(worse.collect());
                Ok(())
            })
            .await;
        tokio::time::sleep(AGAIN).await;
    }
}
