//! Chains of callers, from the calls of functions and from kernel stacks.

use std::collections::{HashMap, HashSet};

use punctual_model::{Text, TraceEvent, TracedCall};

/// Maximum number of functions in a chain.
const LONGEST: usize = 8;

/// Prefixes of functions in an interrupt's entry code. The functions after the last of them in a
/// stack were interrupted.
const OF_ENTRY: [&str; 6] = [
    "asm_sysvec_",
    "asm_common_interrupt",
    "el1h_64_irq",
    "el1_irq",
    "el0t_64_irq",
    "el0_irq",
];

/// Functions of the scheduler, which switch to the woken thread.
const OF_SCHEDULER: [&str; 4] = [
    "__schedule",
    "schedule",
    "preempt_schedule",
    "schedule_idle",
];

/// The functions of softirqs (kernel/softirq.c), and their numbers.
const SOFTIRQS: [(&str, u32); 10] = [
    ("tasklet_hi_action", 0),
    ("run_timer_softirq", 1),
    ("net_tx_action", 2),
    ("net_rx_action", 3),
    ("blk_done_softirq", 4),
    ("irq_poll_softirq", 5),
    ("tasklet_action", 6),
    ("run_rebalance_domains", 7),
    ("hrtimer_run_softirq", 8),
    ("rcu_core_si", 9),
];

/// The chain of callers of each call.
pub(super) struct Chains<'a>(Vec<Vec<&'a Text>>);

impl<'a> Chains<'a> {
    pub(super) fn new(calls: &[&'a TracedCall], stacks: &'a [Vec<Text>]) -> Self {
        const HANDLER: u8 = TraceEvent::HARDIRQ | TraceEvent::SOFTIRQ | TraceEvent::NMI;
        // The functions that have not returned, outermost first, for each thread and handler.
        let mut active: HashMap<(u32, u8), Vec<&Text>> = HashMap::new();
        let mut chains = Vec::with_capacity(calls.len());
        for call in calls {
            let stack = active
                .entry((call.thread.pid, call.flags & HANDLER))
                .or_default();
            if let Some(caller) = &call.caller {
                // All functions that the caller had called before have returned. If the caller
                // itself was not traced, its callers are unknown.
                let place = stack.iter().position(|function| *function == caller);
                stack.truncate(place.map_or(0, |place| place + 1));
                if place.is_none() {
                    stack.push(caller);
                }
                if *caller != call.function {
                    stack.push(&call.function);
                }
            }
            let mut chain: Vec<&Text> = match &call.caller {
                Some(_) => stack.iter().rev().take(LONGEST).copied().collect(),
                None if call.function.0.is_empty() => Vec::new(),
                None => vec![&call.function],
            };
            continue_in_stack(&mut chain, stacks);
            chains.push(chain);
        }
        Self(chains)
    }

    /// Returns the chain of a call in words. `None` if the call names no function.
    pub(super) fn at(&self, place: usize) -> Option<Text> {
        let chain = self.0.get(place).filter(|chain| !chain.is_empty())?;
        Some(joined(chain.iter().copied()))
    }

    /// Returns whether a function is in the chain of a call.
    pub(super) fn contains(&self, place: usize, function: &Text) -> bool {
        (self.0.get(place)).is_some_and(|chain| chain.contains(&function))
    }

    /// Returns whether a call belongs to a switch of the scheduler.
    pub(super) fn schedules(&self, place: usize) -> bool {
        let chain = self.0.get(place).into_iter().flatten();
        chain
            .into_iter()
            .any(|name| OF_SCHEDULER.contains(&&*name.0))
    }

    /// Returns the softirq that a call belongs to.
    pub(super) fn softirq(&self, place: usize) -> Option<u32> {
        let mut chain = self.0.get(place)?.iter();
        chain.find_map(|name| {
            let known = SOFTIRQS.iter().find(|(function, _)| **function == *name.0);
            known.map(|(_, vec)| *vec)
        })
    }
}

/// Appends the callers of the last function from a stack that contains it.
fn continue_in_stack<'a>(chain: &mut Vec<&'a Text>, stacks: &'a [Vec<Text>]) {
    let Some(last) = chain.last().copied() else {
        return;
    };
    let callers = stacks.iter().rev().find_map(|stack| {
        let place = stack.iter().rposition(|function| function == last)?;
        Some(&stack[place + 1..])
    });
    let known: HashSet<&Text> = chain.iter().copied().collect();
    let callers = callers
        .into_iter()
        .flatten()
        .filter(|name| !known.contains(name));
    let most = LONGEST.saturating_sub(chain.len());
    chain.extend(callers.take(most));
}

/// Returns the functions of a stack that an interrupt interrupted. Empty for user space.
pub(super) fn after_entry(stack: &[Text]) -> &[Text] {
    let is_entry = |name: &Text| OF_ENTRY.iter().any(|of| name.0.starts_with(of));
    let entry = stack.iter().rposition(is_entry);
    entry.map_or(stack, |entry| &stack[entry + 1..])
}

/// Joins the innermost functions of a chain by `<`.
pub(super) fn joined<'a>(chain: impl IntoIterator<Item = &'a Text>) -> Text {
    let names: Vec<&str> = chain
        .into_iter()
        .take(LONGEST)
        .map(|name| &*name.0)
        .collect();
    names.join(" < ").as_str().into()
}
