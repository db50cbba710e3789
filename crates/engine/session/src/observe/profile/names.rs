//! Names the functions of samples, and gives equal stacks the same number.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::Hash;

use punctual_culprit::interrupt_source;
use punctual_host::{Host, Symbols};
use punctual_model::cause::{FrameOf, InterruptSource, ProfileFrame, ProfileState};
use punctual_trace::{Doing, RawStack, StackSample, Waker};

use crate::explain::UserCode;

/// Kernel functions that record events, and ours at the innermost end of a stack.
const RECORDERS: [&str; 4] = ["bpf_", "__bpf_", "__traceiter_", "perf_trace_"];

/// Functions that begin processes and threads, of the C library and of Go. The symbols of the C library
/// are often stripped, so that only its file is known.
const OUTERMOST: [&str; 12] = [
    "_start",
    "main",
    "__libc_start_main",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
    "libc.so.6",
    "libpthread.so.0",
    "runtime.goexit.abi0",
    "runtime.mstart.abi0",
];

/// Number of words on a stack that are searched for a caller if nothing describes a library.
const SEARCHED: usize = 48;

/// Values with numbers.
struct Numbered<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn new() -> Self {
        Self {
            numbers: HashMap::new(),
            values: Vec::new(),
        }
    }

    fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)
    }
}

/// A stack of a sample. Its frames are the outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedStack {
    pub(super) state: ProfileState,
    pub(super) is_incomplete: bool,
    frames: Vec<u32>,
}

/// The stacks of all samples.
pub(super) struct Stacks {
    host: Host,
    code: UserCode,
    symbols: Option<Symbols>,
    /// The process of each thread.
    processes: HashMap<u32, u32>,
    all_frames: Numbered<ProfileFrame>,
    /// Frames by process and address. The process is 0 for the kernel.
    known: HashMap<(u32, u64), u32>,
    stacks: Numbered<NamedStack>,
    most: usize,
}

impl Stacks {
    pub(super) fn new(host: &Host, reader: Option<Vec<OsString>>, most: usize) -> Self {
        Self {
            host: host.clone(),
            code: UserCode::finding_callers(host, reader),
            symbols: None,
            processes: HashMap::new(),
            all_frames: Numbered::new(),
            known: HashMap::new(),
            stacks: Numbered::new(),
            most,
        }
    }

    /// Returns the number of the stack of a sample.
    pub(super) fn number(&mut self, sample: &StackSample) -> u32 {
        let (state, waker) = match &sample.doing {
            Doing::Running => (ProfileState::Running, None),
            Doing::Runnable => (ProfileState::Runnable, None),
            Doing::Waiting(waker) => (ProfileState::Waiting, Some(waker)),
        };
        let (frames, is_incomplete) = match state {
            ProfileState::Runnable => (vec![self.remark("[waiting for a CPU]".to_owned())], false),
            _ => self.frames(sample, waker),
        };
        let mut stack = NamedStack {
            state,
            is_incomplete,
            frames,
        };
        if self.stacks.values.len() >= self.most && !self.stacks.numbers.contains_key(&stack) {
            let rest = self.remark("[too many different stacks]".to_owned());
            stack.frames = vec![rest];
        }
        self.stacks.number(stack)
    }

    /// Returns the frames of a sample, and whether some are missing.
    fn frames(&mut self, sample: &StackSample, waker: Option<&Waker>) -> (Vec<u32>, bool) {
        let (mut frames, is_incomplete) = self.user(sample.tid, &sample.stack);
        frames.reverse();
        let mut kernel = self.kernel(&sample.stack.kernel);
        kernel.reverse();
        frames.extend(kernel);
        match waker {
            None => {}
            Some(Waker::Thread { tid, comm, stack }) => {
                frames.push(self.remark(format!("[woken by {comm}]")));
                let kernel = self.kernel(&stack.kernel);
                let (user, _) = self.user(*tid, stack);
                for frame in kernel.into_iter().chain(user) {
                    frames.push(self.of_waker(frame));
                }
            }
            Some(Waker::Interrupt(stack)) => {
                let by = self.interrupt(stack);
                frames.push(self.remark(by));
            }
        }
        (frames, is_incomplete)
    }

    /// Returns a stack and its frames.
    pub(super) fn stack(&self, number: u32) -> Option<(&NamedStack, Vec<ProfileFrame>)> {
        let stack = self.stacks.get(number)?;
        let frames = stack
            .frames
            .iter()
            .filter_map(|one| self.all_frames.get(*one));
        Some((stack, frames.cloned().collect()))
    }

    fn remark(&mut self, name: String) -> u32 {
        self.all_frames.number(ProfileFrame {
            name,
            file: None,
            of: FrameOf::Remark,
        })
    }

    fn of_waker(&mut self, frame: u32) -> u32 {
        let Some(frame) = self.all_frames.get(frame).cloned() else {
            return frame;
        };
        self.all_frames.number(ProfileFrame {
            of: FrameOf::Waker,
            ..frame
        })
    }

    /// Returns the user frames of a thread, the innermost first, and whether some are missing.
    fn user(&mut self, tid: u32, stack: &RawStack) -> (Vec<u32>, bool) {
        let Some(first) = stack.user.first().copied() else {
            return (Vec::new(), true);
        };
        let process = self.processes.get(&tid).copied();
        let Some(pid) = process.or_else(|| self.host.process_of(tid)) else {
            return (Vec::new(), true);
        };
        self.processes.insert(tid, pid);
        let code = self.code.program(pid, first);
        let (mut addresses, mut is_whole) =
            code.unwind(&stack.registers, &stack.words, &stack.user);
        if addresses.len() == 1 && !is_whole {
            let lr = (stack.registers.lr != 0).then_some(stack.registers.lr);
            let words: Vec<u64> = lr.into_iter().chain(stack.words.iter().copied()).collect();
            // The words on the stack of the program's own code may be left over from earlier calls.
            let searched = if code.is_in_program(first) {
                &[]
            } else {
                &words[..words.len().min(SEARCHED)]
            };
            (addresses, _) = code.addresses(&stack.user, searched);
        }
        let mut numbers = Vec::new();
        for (place, address) in addresses.into_iter().enumerate() {
            let number = match self.known.get(&(pid, address)) {
                Some(number) => *number,
                None => {
                    let frame = code.frame(address, place > 0);
                    let of = if code.is_in_program(address) {
                        FrameOf::Program
                    } else {
                        FrameOf::Library
                    };
                    let text = frame.text();
                    let number = self.all_frames.number(ProfileFrame {
                        name: function(frame.symbol.as_deref().unwrap_or(&text)).to_owned(),
                        file: frame.object,
                        of,
                    });
                    self.known.insert((pid, address), number);
                    number
                }
            };
            numbers.push(number);
        }
        let outermost = numbers.last().and_then(|last| self.all_frames.get(*last));
        is_whole |= outermost.is_some_and(|frame| OUTERMOST.contains(&frame.name.as_str()));
        (numbers, !is_whole)
    }

    fn kernel_name(&mut self, address: u64) -> String {
        let table = self.symbols.get_or_insert_with(|| self.host.symbols());
        let name = table.function(address).map(|(name, _)| name.into_owned());
        name.unwrap_or_else(|| format!("{address:#x}"))
    }

    /// Returns kernel frames, the innermost first.
    fn kernel(&mut self, addresses: &[u64]) -> Vec<u32> {
        let mut numbers = Vec::new();
        for address in addresses {
            let number = match self.known.get(&(0, *address)) {
                Some(number) => *number,
                None => {
                    let frame = ProfileFrame {
                        name: self.kernel_name(*address),
                        file: None,
                        of: FrameOf::Kernel,
                    };
                    let number = self.all_frames.number(frame);
                    self.known.insert((0, *address), number);
                    number
                }
            };
            numbers.push(number);
        }
        let is_recorder = |number: &u32| {
            let frame = self.all_frames.get(*number);
            frame.is_some_and(|frame| RECORDERS.iter().any(|one| frame.name.starts_with(one)))
        };
        let own = numbers
            .iter()
            .take_while(|number| is_recorder(number))
            .count();
        numbers.split_off(own)
    }

    fn interrupt(&mut self, stack: &[u64]) -> String {
        let names: Vec<String> = stack.iter().map(|at| self.kernel_name(*at)).collect();
        match interrupt_source(&names) {
            Some(InterruptSource::Timer) => "[woken by its timer]".to_owned(),
            _ => "[woken by an interrupt]".to_owned(),
        }
    }
}

/// Returns the name of a function without the offset in it.
fn function(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::Comm;
    use punctual_model::Nanos;

    use super::*;

    #[test]
    fn offsets_are_cut_off() {
        assert_eq!(function("step+0x1c"), "step");
        assert_eq!(function("operator+0xz"), "operator+0xz");
        assert_eq!(function("step"), "step");
    }

    #[test]
    fn equal_stacks_share_a_number_up_to_a_limit() {
        let mut stacks = Stacks::new(&Host::new("/nonexistent"), None, 2);
        let mut number = |kernel: &[u64]| {
            let sample = StackSample {
                tid: 7,
                from: Nanos(1),
                to: Nanos(2),
                stack: RawStack {
                    kernel: kernel.to_vec(),
                    ..RawStack::default()
                },
                doing: Doing::Waiting(Waker::Thread {
                    tid: 8,
                    comm: Comm::new(b"other"),
                    stack: RawStack::default(),
                }),
            };
            stacks.number(&sample)
        };
        let all = [&[1, 2][..], &[1, 2], &[3], &[4], &[5], &[3]].map(&mut number);
        assert_eq!(all, [0, 0, 1, 2, 2, 1]);
        let (stack, frames) = stacks.stack(0).unwrap();
        assert!(stack.state == ProfileState::Waiting && stack.is_incomplete);
        let names: Vec<&str> = frames.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["0x2", "0x1", "[woken by other]"]);
        let (_, frames) = stacks.stack(2).unwrap();
        assert_eq!(frames[0].name, "[too many different stacks]");
    }
}
