//! Determines from its stack what an interrupt or softirq does that wakes a thread.

use punctual_model::cause::{Device, InterruptSource};

use crate::context::SOFTIRQ_TIMER;

const SOFTIRQ_NETWORK: u32 = 3;
const SOFTIRQ_DISK: u32 = 4;

/// Functions of the timers that a thread sets for itself, by a sleep, a timeout or a timer descriptor
/// (kernel/time, fs/timerfd.c).
const OWN_TIMERS: [&str; 7] = [
    "hrtimer_wakeup",
    "process_timeout",
    "posix_timer_fn",
    "it_real_fn",
    "timerfd_tmrproc",
    "timerfd_alarmproc",
    "alarmtimer_fired",
];

/// Functions that end the handling of an interrupt, and the threads for softirqs.
const AFTER_INTERRUPT: [&str; 4] = [
    "__irq_exit_rcu",
    "irq_exit_rcu",
    "irq_exit",
    "run_ksoftirqd",
];

/// A thread runs its own softirqs in this function.
const IN_CALL: &str = "__local_bh_enable_ip";

/// Returns the source of a wake-up; `None` if the stack does not show it. `functions`: the innermost
/// function first.
pub fn interrupt_source(functions: &[String]) -> Option<InterruptSource> {
    // The compiler may append a suffix such as `.isra.0`.
    let base = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let functions: Vec<String> = functions.iter().map(|name| base(name)).collect();
    for (place, name) in functions.iter().enumerate() {
        let device = match name.as_str() {
            name if OWN_TIMERS.contains(&name) => return Some(InterruptSource::Timer),
            "net_rx_action" | "net_tx_action" => return Some(of_network(&functions[place..])),
            "blk_done_softirq" => Device::Softirq(SOFTIRQ_DISK),
            "run_timer_softirq" => Device::Softirq(SOFTIRQ_TIMER),
            "__handle_irq_event_percpu" | "handle_percpu_devid_irq" => match place {
                0 => return None,
                _ => vector(&format!("interrupt handler {}", functions[place - 1])),
            },
            "__sysvec_call_function" | "__sysvec_call_function_single" => {
                vector("call of another CPU")
            }
            "__sysvec_irq_work" => vector("irq_work"),
            _ => continue,
        };
        return Some(InterruptSource::Device(device));
    }
    None
}

fn vector(name: &str) -> Device {
    Device::Vector(name.into())
}

/// A softirq in a thread's own call delivers the data that the thread sends to this machine.
fn of_network(callers: &[String]) -> InterruptSource {
    let known = callers
        .iter()
        .find(|name| AFTER_INTERRUPT.contains(&name.as_str()) || *name == IN_CALL);
    match known {
        Some(name) if name == IN_CALL => InterruptSource::Peer,
        _ => InterruptSource::Device(Device::Softirq(SOFTIRQ_NETWORK)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(stack: &str) -> Option<InterruptSource> {
        let functions: Vec<String> = stack.split(" < ").map(str::to_owned).collect();
        interrupt_source(&functions)
    }

    #[test]
    fn stacks_show_timers_devices_and_peers() {
        use InterruptSource::{Device as By, Peer, Timer};
        let sleep = "bpf_trace_run1 < try_to_wake_up < hrtimer_wakeup < __hrtimer_run_queues < \
                     hrtimer_interrupt < __sysvec_apic_timer_interrupt";
        assert_eq!(source(sleep), Some(Timer));
        let poll = "try_to_wake_up < process_timeout < call_timer_fn < __run_timers < \
                    run_timer_softirq < handle_softirqs < __irq_exit_rcu";
        assert_eq!(source(poll), Some(Timer));
        let packet = "try_to_wake_up < sock_def_readable < tcp_v4_rcv < process_backlog < \
                      __napi_poll < net_rx_action < handle_softirqs";
        let network = By(Device::Softirq(SOFTIRQ_NETWORK));
        assert_eq!(source(packet), Some(network.clone()));
        let card = format!("{packet} < __irq_exit_rcu < common_interrupt < __local_bh_enable_ip");
        assert_eq!(source(&card), Some(network));
        let peer = format!("{packet} < do_softirq.part.0 < __local_bh_enable_ip < tcp_sendmsg");
        assert_eq!(source(&peer), Some(Peer));
        let disk = "try_to_wake_up < bio_endio < blk_mq_end_request < nvme_irq < \
                    __handle_irq_event_percpu < handle_edge_irq";
        assert_eq!(source(disk), Some(By(vector("interrupt handler nvme_irq"))));
        // A timer of the kernel that is not the thread's own.
        let kernel = "try_to_wake_up < tcp_write_timer < call_timer_fn < run_timer_softirq";
        assert_eq!(source(kernel), Some(By(Device::Softirq(SOFTIRQ_TIMER))));
    }

    #[test]
    fn other_stacks_show_nothing() {
        assert_eq!(
            source("try_to_wake_up < wake_up_q < do_futex < futex"),
            None
        );
        assert_eq!(source("__handle_irq_event_percpu"), None);
        assert_eq!(interrupt_source(&[]), None);
    }
}
