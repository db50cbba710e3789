//! What many requests ask of the store at once becomes one question: thousands of machines
//! each send a little, and a round to a database costs more than that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_store::Collection;
use tokio::sync::oneshot;

use crate::problem::Problem;
use crate::workers::Workers;

/// How long is gathered: a machine does not see it, and 1,000 requests a second become 200.
const GATHERED: Duration = Duration::from_millis(5);
/// Asks at once.
const MOST: usize = 500;

/// An ask, and whom to answer.
type Waiting<Q, A> = (Q, oneshot::Sender<Result<A, Problem>>);

/// Answers several asks, each in its place.
type Work<Q, A> = fn(&dyn Collection, &[Q]) -> Vec<Result<A, Problem>>;

/// Asks of one kind.
pub(crate) struct Gather<Q, A> {
    collection: Arc<dyn Collection>,
    workers: Workers,
    /// Answers each ask.
    work: Work<Q, A>,
    queue: Mutex<Queue<Q, A>>,
}

struct Queue<Q, A> {
    waiting: Vec<Waiting<Q, A>>,
    /// Whether a task answers them.
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

    /// Asks together with others.
    pub(crate) async fn ask(self: &Arc<Self>, what: Q) -> Result<A, Problem> {
        let (answer, answered) = oneshot::channel();
        let first = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.push((what, answer));
            !std::mem::replace(&mut queue.is_served, true)
        };
        if first {
            // A task of its own: the client of the first ask may go away.
            tokio::spawn(Arc::clone(self).serve());
        }
        answered.await.unwrap_or_else(|_| Err(Problem::fault()))
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

    /// Answers all that wait, until nobody does.
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
                    // Whoever went away needs none.
                    let _ = answer.send(result);
                }
                Ok(())
            });
            // A fault of the program drops the answers, which says so.
            let _ = done.await;
        }
    }
}
