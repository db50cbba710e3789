//! What many requests ask of the store at once becomes one question: thousands of machines
//! each send a little, and a round to a database costs more than that.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::oneshot;

use crate::problem::Problem;
use crate::state::{App, Inner};

/// How long is gathered: a machine does not see it, and 1,000 requests a second become 200.
const GATHERED: Duration = Duration::from_millis(5);
/// Asks at once.
const MOST: usize = 500;

/// An ask, and whom to answer.
type Waiting<Q, A> = (Q, oneshot::Sender<Result<A, Problem>>);

/// Answers several asks, each in its place.
type Work<Q, A> = fn(&Inner, &[Q]) -> Vec<Result<A, Problem>>;

/// Asks of one kind.
pub(crate) struct Gather<Q, A> {
    queue: Mutex<Queue<Q, A>>,
    /// Where in the state this is.
    place: fn(&Inner) -> &Gather<Q, A>,
    /// Answers each ask.
    work: Work<Q, A>,
}

struct Queue<Q, A> {
    waiting: Vec<Waiting<Q, A>>,
    /// Whether a task answers them.
    is_served: bool,
}

impl<Q: Send + 'static, A: Send + 'static> Gather<Q, A> {
    pub(crate) const fn new(place: fn(&Inner) -> &Self, work: Work<Q, A>) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: Vec::new(),
                is_served: false,
            }),
            place,
            work,
        }
    }

    /// Asks together with others.
    pub(crate) async fn ask(&self, app: &App, what: Q) -> Result<A, Problem> {
        let (answer, answered) = oneshot::channel();
        let first = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.push((what, answer));
            !std::mem::replace(&mut queue.is_served, true)
        };
        if first {
            // A task of its own: the client of the first ask may go away.
            tokio::spawn(serve(app.clone(), self.place));
        }
        answered.await.unwrap_or_else(|_| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Problem::new(
                status,
                "this request failed: a fault of punctual",
            ))
        })
    }

    /// The next asks; `None`: nobody waits, and the task that asks here ends.
    fn next(&self) -> Option<Vec<Waiting<Q, A>>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.waiting.is_empty() {
            queue.is_served = false;
            return None;
        }
        let rest = queue.waiting.len().min(MOST);
        let rest = queue.waiting.split_off(rest);
        Some(std::mem::replace(&mut queue.waiting, rest))
    }
}

/// Answers all that wait, until nobody does.
async fn serve<Q: Send + 'static, A: Send + 'static>(app: App, place: fn(&Inner) -> &Gather<Q, A>) {
    loop {
        tokio::time::sleep(GATHERED).await;
        let Some(waiting) = place(&app).next() else {
            return;
        };
        let done = app.work(move |app| {
            let (asked, answers): (Vec<Q>, Vec<_>) = waiting.into_iter().unzip();
            let all = (place(app).work)(app, &asked);
            for (answer, result) in answers.into_iter().zip(all) {
                // Whoever went away needs none.
                let _ = answer.send(result);
            }
            Ok(())
        });
        // A fault of the program drops the answers, which says so.
        let _ = done.await;
    }
}
