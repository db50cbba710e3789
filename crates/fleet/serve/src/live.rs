//! Running measurements as server-sent events.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use punctual_model::{Completion, Histogram, Nanos, Recording, RecordingId};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::problem::{BUSY, Problem};
use crate::state::App;

/// Runs commit data at most once a second.
const PAUSE: Duration = Duration::from_secs(1);
/// Reading is limited to one part in this many of the time, because long runs have many rows.
const SHARE: u32 = 20;
/// Maximum number of rows to send.
const RECENT: usize = 120;

/// The known state of a run.
#[derive(Serialize)]
struct Progress {
    elapsed_ns: Nanos,
    recorded: u64,
    missed: u64,
    p50_ns: Option<Nanos>,
    p99_ns: Option<Nanos>,
    max_ns: Option<Nanos>,
    recent: Vec<Recent>,
}

/// An interval of all threads.
#[derive(Serialize)]
struct Recent {
    start_ns: Nanos,
    max_ns: Option<Nanos>,
}

impl Progress {
    fn from_recording(recording: &Recording) -> Self {
        let mut all = Histogram::new();
        for thread in &recording.threads {
            all.merge(&thread.histogram);
        }
        let mut recent: Vec<Recent> = Vec::new();
        for row in recording.series.rows.iter() {
            match recent.last_mut() {
                Some(last) if last.start_ns == row.start_ns => {
                    last.max_ns = last.max_ns.max(row.max_ns);
                }
                _ => recent.push(Recent {
                    start_ns: row.start_ns,
                    max_ns: row.max_ns,
                }),
            }
        }
        recent.drain(..recent.len().saturating_sub(RECENT));
        let accounting = recording.accounting();
        Self {
            elapsed_ns: recording.duration_ns,
            recorded: accounting.recorded,
            missed: accounting.missed,
            p50_ns: all.quantile(0.5),
            p99_ns: all.supported_quantile(0.99),
            max_ns: all.max(),
            recent,
        }
    }
}

/// Returns the events of a recording until it ends.
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let Ok(seat) = std::sync::Arc::clone(&app.streams).try_acquire_owned() else {
        return Err(Problem::busy("too many live views are open", BUSY));
    };
    let id = app.stored(move |all| all.find(&id)).await?;
    let (sender, receiver) = mpsc::channel(1);
    let kept = app.clone();
    tokio::spawn(async move {
        follow(&kept, id, &sender).await;
        drop(seat);
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((StatusCode::OK, headers, Body::new(Events(receiver))).into_response())
}

/// Sends the current state repeatedly until the run ends, the reader disconnects, or the server
/// ends.
async fn follow(app: &App, id: RecordingId, to: &mpsc::Sender<Bytes>) {
    loop {
        let began = Instant::now();
        let read = app.stored(move |all| Ok(all.load(id)?.1)).await;
        let Ok(recording) = read else { return };
        let running = recording.completion == Completion::Running && !app.streams.is_closed();
        let progress = serde_json::json!(Progress::from_recording(&recording));
        let event = format!("event: progress\ndata: {progress}\n\n");
        if to.send(Bytes::from(event)).await.is_err() {
            return;
        }
        if !running {
            // The send fails only if the reader has disconnected.
            let _ = to
                .send(Bytes::from_static(b"event: end\ndata: {}\n\n"))
                .await;
            return;
        }
        let pause = PAUSE.max(began.elapsed() * SHARE);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = to.closed() => return,
            () = app.ending.notified() => return,
        }
    }
}

/// A response body of events.
struct Events(mpsc::Receiver<Bytes>);

impl HttpBody for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let received = self.0.poll_recv(context);
        received.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
