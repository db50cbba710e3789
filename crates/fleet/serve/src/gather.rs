//! Combines the store queries of many requests into one. This helps because thousands of machines
//! each send small requests, and a round trip to a database costs more than the query itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_store::Collection;
use tokio::sync::oneshot;

use crate::problem::Problem;
use crate::workers::Workers;

/// How long queries are collected before they are sent. Machines do not notice the delay, and 1,000
/// requests a second become 200 queries.
const GATHERED: Duration = Duration::from_millis(5);
/// Maximum number of queries to combine.
const MOST: usize = 500;

/// A query with the channel for its answer.
type Waiting<Q, A> = (Q, oneshot::Sender<Result<A, Problem>>);

/// A function that answers several queries in order.
type Work<Q, A> = fn(&dyn Collection, &[Q]) -> Vec<Result<A, Problem>>;

/// Queries of one kind.
pub(crate) struct Gather<Q, A> {
    collection: Arc<dyn Collection>,
    workers: Workers,
    /// The function that answers the queries.
    work: Work<Q, A>,
    queue: Mutex<Queue<Q, A>>,
}

struct Queue<Q, A> {
    waiting: Vec<Waiting<Q, A>>,
    /// Whether a task is answering them.
    is_served: bool,
}

impl<Q: Send + 'static, A: Send + 'static> Gather<Q, A> {
    pub(crate) fn new(
        collection: &Arc<dyn Collection>,
        workers: &Workers,
        work: Work<Q, A>,
    ) -> Arc<Self> {
        Arc::new(Self {
            collection: Arc::clone(collection),
            workers: workers.clone(),
            work,
            queue: Mutex::new(Queue {
                waiting: Vec::new(),
                is_served: false,
            }),
        })
    }

    /// Sends a query together with others, and returns its answer.
    pub(crate) async fn ask(self: &Arc<Self>, what: Q) -> Result<A, Problem> {
        let (answer, answered) = oneshot::channel();
        let first = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.push((what, answer));
            !std::mem::replace(&mut queue.is_served, true)
        };
        if first {
            // This is a separate task, because the client that sent the first query may disconnect.
            tokio::spawn(Arc::clone(self).serve());
        }
        answered.await.unwrap_or_else(|_| Err(Problem::fault()))
    }

    /// Returns the next queries, or `None` if there are none, which ends the task.
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

    /// Answers queries until none is left.
    async fn serve(self: Arc<Self>) {
        loop {
            tokio::time::sleep(GATHERED).await;
            let Some(waiting) = self.next() else {
                return;
            };
            let gather = Arc::clone(&self);
            let done = self.workers.work(move || {
                let (asked, answers): (Vec<Q>, Vec<_>) = waiting.into_iter().unzip();
                let all = (gather.work)(gather.collection.as_ref(), &asked);
                for (answer, result) in answers.into_iter().zip(all) {
                    // Clients that disconnected need no answer.
                    let _ = answer.send(result);
                }
                Ok(())
            });
            // A panic drops the channels, which reports the error.
            let _ = done.await;
        }
    }
}
