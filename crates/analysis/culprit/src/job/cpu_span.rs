//! Activity of a CPU.

use punctual_model::cause::{Cause, Detail, Source};
use punctual_model::{Nanos, Task};

use crate::context::{Context, Handler};

/// Activity of a CPU: the current thread, and what is on top of it.
#[derive(Clone, Debug)]
pub(crate) struct CpuSpan {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) current: Option<Task>,
    pub(crate) on_top: Option<Cause>,
}

impl CpuSpan {
    pub(crate) fn new(from: Nanos, to: Nanos, context: &Context) -> Self {
        Self {
            from,
            to,
            current: context.current,
            on_top: on_top(context),
        }
    }
}

/// Returns what runs on top of the current thread.
fn on_top(context: &Context) -> Option<Cause> {
    if context.nmi > 0 {
        return Some(Cause::new(Source::Nmi));
    }
    if let Some(outermost) = context.handlers.first() {
        return Some(Cause::new(match outermost {
            Handler::Vector(vector) => Source::Vector(vector.clone()),
            Handler::Irq { irq, name } => Source::Irq {
                irq: *irq,
                name: name.clone(),
            },
            Handler::Timer { .. } => Source::Vector(punctual_model::Vector::LocalTimer),
        }));
    }
    let vec = context.softirq?;
    Some(Cause::new(Source::Softirq(vec)).with(Detail::On(context.current)))
}
