//! A simulated machine whose threads call functions, wake each other and switch.

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Thread {
    pub(super) comm: &'static str,
    pub(super) pid: u32,
    pub(super) prio: u32,
}

const fn thread(comm: &'static str, pid: u32, prio: u32) -> Thread {
    Thread { comm, pid, prio }
}

pub(super) const IDLE: Thread = thread("swapper/1", 0, 120);
pub(super) const VICTIM: Thread = thread("control", 1400, 9);
pub(super) const WORKER: Thread = thread("worker-long-name", 1202, 120);
/// Runs on the other CPU.
pub(super) const WAKER: Thread = thread("waker", 1300, 19);

/// The functions that each thread calls.
pub(super) const FUNCTIONS: [(Thread, [&str; 3]); 3] = [
    (VICTIM, ["own_a", "own_b", "own_c"]),
    (WORKER, ["work_a", "work_b", "work_c"]),
    (WAKER, ["far_a", "far_b", "far_c"]),
];

#[derive(Clone)]
pub(super) enum Kind {
    Calls(&'static str),
    /// After this time.
    Returns(u64),
    Wakes,
    Switch(char, Thread),
}

#[derive(Clone)]
pub(super) struct Line {
    pub(super) us: u64,
    pub(super) cpu: usize,
    pub(super) current: Thread,
    pub(super) depth: usize,
    pub(super) kind: Kind,
}

/// A wait of the victim, and the functions that ran meanwhile on its CPU, with their times.
pub(super) struct Wait {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A run of a function, as the spans while its thread was current.
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) spans: Vec<(u64, u64)>,
}

/// An open call: its name, its time, and the spans while its thread ran.
type Open = (&'static str, u64, Vec<(u64, u64)>);

#[derive(Default)]
pub(super) struct Machine {
    pub(super) lines: Vec<Line>,
    pub(super) waits: Vec<Wait>,
    /// Runs on the victim's CPU.
    pub(super) runs: Vec<Run>,
}

/// Lets threads call functions, wake and switch, as the steps say.
pub(super) fn simulate(steps: &[(u64, u8)]) -> Machine {
    let mut machine = Machine::default();
    let mut us = 8_210_000_000;
    let mut current = [WAKER, WORKER];
    let mut open: [Vec<Open>; 3] = Default::default();
    let of = |thread: Thread| {
        FUNCTIONS
            .iter()
            .position(|(one, _)| *one == thread)
            .unwrap()
    };
    let (mut since, mut woken) = (us, None);
    machine
        .lines
        .push(line(us, 0, IDLE, 0, Kind::Switch('R', WAKER)));
    machine
        .lines
        .push(line(us, 1, IDLE, 0, Kind::Switch('R', WORKER)));
    let mut asleep = true;
    for (wait, choice) in steps {
        us += wait;
        let (what, which) = (choice % 8, usize::from(choice / 8) % 3);
        let cpu = usize::from(!matches!(what, 4..=6));
        let thread = current[cpu];
        let place = of(thread);
        let depth = open[place].len();
        let kind = match what {
            0 | 1 | 4 if depth < 5 => {
                let name = FUNCTIONS[place].1[which];
                open[place].push((name, us, Vec::new()));
                Kind::Calls(name)
            }
            2 | 3 | 5 if depth > 0 => {
                let (name, begin, mut spans) = open[place].pop().unwrap();
                spans.push((begin.max(since), us));
                if cpu == 1 {
                    machine.runs.push(Run {
                        name,
                        begin,
                        end: us,
                        spans,
                    });
                }
                Kind::Returns(us - begin)
            }
            6 if asleep => {
                (asleep, woken) = (false, Some(us));
                Kind::Wakes
            }
            7 if thread == WORKER && woken.is_some() => {
                let from = woken.take().unwrap();
                machine.waits.push(Wait { from, to: us });
                Kind::Switch('R', VICTIM)
            }
            7 if thread == VICTIM => {
                asleep = true;
                Kind::Switch('S', WORKER)
            }
            _ => continue,
        };
        let depth = match kind {
            Kind::Returns(..) => depth - 1,
            _ => depth,
        };
        machine
            .lines
            .push(line(us, cpu, thread, depth, kind.clone()));
        if let Kind::Switch(_, next) = kind {
            for (_, begin, spans) in &mut open[place] {
                spans.push(((*begin).max(since), us));
            }
            (current[1], since) = (next, us);
        }
    }
    machine
}

pub(super) const fn line(us: u64, cpu: usize, current: Thread, depth: usize, kind: Kind) -> Line {
    Line {
        us,
        cpu,
        current,
        depth,
        kind,
    }
}
