//! Removes thread IDs from sources, so that threads of the same name count as one source.

use super::{Awaited, Leaf, Name, Signal, Source, Unknown};

impl Source {
    /// Returns the source without thread IDs: it represents all threads of the same names.
    pub fn without_ids(&self) -> Self {
        match self {
            Self::IrqsOff(thread) => Self::IrqsOff(thread.without_id()),
            Self::PreemptOff(thread) => Self::PreemptOff(thread.without_id()),
            Self::Thread { role, thread } => Self::Thread {
                role: *role,
                thread: thread.without_id(),
            },
            Self::Stopped(Some(by)) => Self::Stopped(Some(Signal {
                signal: by.signal,
                sender: by.sender.without_id(),
            })),
            Self::Awaited(awaited) => Self::Awaited(awaited.without_ids()),
            Self::Host(source) => Self::Host(Box::new(source.without_ids())),
            Self::Undecided { source, thief } => Self::Undecided {
                source: Box::new(source.without_ids()),
                thief: *thief,
            },
            Self::Unexplained(Unknown::PriorityOf(thread)) => {
                Self::Unexplained(Unknown::PriorityOf(thread.without_id()))
            }
            other => other.clone(),
        }
    }
}

impl Awaited {
    fn without_ids(&self) -> Self {
        Self {
            wait: self.wait,
            chain: self.chain.iter().map(Name::without_id).collect(),
            leaf: match &self.leaf {
                Leaf::Preempted { by, prio } => Leaf::Preempted {
                    by: by.without_id(),
                    prio: *prio,
                },
                leaf => leaf.clone(),
            },
        }
    }
}

impl Name {
    /// A thread without a name keeps its ID.
    fn without_id(&self) -> Self {
        Self {
            pid: self.pid.filter(|_| self.comm.is_empty()),
            comm: self.comm,
        }
    }
}
