//! Sources of activities and their names.

use std::collections::HashMap;

use punctual_model::{ActivitySource, Text, Vector, softirq_name};

/// Functions that find names.
pub struct ActivityNames {
    /// Finds the name of a thread. Returns `None` if the thread has ended.
    pub thread: Box<dyn FnMut(u32) -> Option<String> + Send>,
    /// Finds the kernel function at an address. Returns `None` if symbols are hidden.
    pub symbol: Box<dyn Fn(u64) -> Option<String> + Send>,
}

/// A source, as events describe it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Irq(u32, Text),
    Vector(Vector),
    Softirq(u32),
    Function(u64),
    Device(Text),
    Sender {
        from: u32,
        /// `None` if an interrupt handler was the sender.
        thread: Option<u32>,
        callsite: u64,
    },
    /// All sources without a row.
    Others,
}

impl ActivityNames {
    /// Looks up a thread. It should be running, because the name of a thread that has ended is
    /// unknown.
    pub(super) fn label(&mut self, tid: u32) -> String {
        match tid {
            0 => "idle".to_owned(),
            tid => match (self.thread)(tid) {
                Some(name) => format!("{name}-{tid}"),
                None => format!("thread {tid}, which has ended"),
            },
        }
    }

    /// Returns the function at an address. All addresses in one function have the same name.
    fn function(&self, address: u64) -> String {
        match (self.symbol)(address) {
            Some(name) => match name.split_once('+') {
                Some((function, _)) => function.to_owned(),
                None => name,
            },
            None => format!("{address:#x}"),
        }
    }
}

impl Source {
    /// Returns the source with names. `senders` contains the names of threads.
    pub(super) fn describe(
        &self,
        names: &ActivityNames,
        senders: &HashMap<u32, String>,
    ) -> ActivitySource {
        let named = |name: String| ActivitySource {
            name: Some(name),
            ..ActivitySource::default()
        };
        match self {
            Self::Irq(number, name) => ActivitySource {
                irq: Some(*number),
                ..named(name.to_string())
            },
            Self::Vector(vector) => named(vector.name().to_owned()),
            Self::Softirq(vec) => named(softirq_name(*vec)),
            Self::Function(address) => named(names.function(*address)),
            Self::Device(name) => named(name.to_string()),
            Self::Sender {
                from,
                thread,
                callsite,
            } => ActivitySource {
                from_cpu: Some(*from),
                thread: thread.map(|tid| {
                    let known = senders.get(&tid).cloned();
                    known.unwrap_or_else(|| format!("thread {tid}"))
                }),
                ..named(names.function(*callsite))
            },
            Self::Others => ActivitySource::default(),
        }
    }
}
