//! Parses the functions of kernel stacks, which are on the lines after an event.

use punctual_model::Nanos;

/// Maximum number of functions that are kept of a stack (`PERF_MAX_STACK_DEPTH`).
const DEEPEST: usize = 127;

/// A line with one function of a stack.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A line such as ` => schedule` from tracefs, or `=> schedule (ffffffff81c0ffee)` from
    /// trace-cmd.
    Arrow(&'a str),
    /// A kernel function from perf, such as `ffffffff81c0ffee schedule+0x2e ([kernel.kallsyms])`.
    Kernel(&'a str),
    /// A function of a user-space program. It is discarded.
    User,
}

impl<'a> Frame<'a> {
    /// Parses a line. Returns `None` if it is not a function of a stack.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if let Some(function) = line.strip_prefix("=> ") {
            return Some(Self::Arrow(function.split_whitespace().next()?));
        }
        let (address, rest) = line.split_once(' ')?;
        let is_hex = address.bytes().all(|byte| byte.is_ascii_hexdigit());
        if address.len() < 5 || !is_hex {
            return None;
        }
        let (function, object) = rest.strip_suffix(')')?.rsplit_once('(')?;
        let is_kernel = object.starts_with('[') && object != "[unknown]" && object != "[vdso]"
            || object.ends_with("vmlinux")
            || object.ends_with(".ko");
        match function.trim() {
            name if is_kernel && !name.is_empty() => Some(Self::Kernel(name)),
            _ => Some(Self::User),
        }
    }
}

/// The time at which and the CPU on which an event was written, and the fields that all events
/// have.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventHeader {
    pub(super) time: Nanos,
    pub(super) cpu: u32,
    /// ID of the thread, if the line contains it.
    pub(super) pid: Option<u32>,
    pub(super) flags: u8,
    pub(super) preempt_count: u8,
}

/// A stack that is being read.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) header: EventHeader,
    pub(super) frames: Vec<u64>,
}

impl Stack {
    pub(super) fn add(&mut self, function: u64) {
        if self.frames.len() < DEEPEST {
            self.frames.push(function);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_functions_are_distinguished_from_program_functions() {
        let of_perf = "\tffffffff81c0ffee schedule+0x2e ([kernel.kallsyms])";
        assert_eq!(Frame::read(of_perf), Some(Frame::Kernel("schedule+0x2e")));
        let of_program = "        7f409cd18109 __libc_start_main+0x85 (/usr/lib/libc.so.6)";
        assert_eq!(Frame::read(of_program), Some(Frame::User));
        assert_eq!(
            Frame::read("=> schedule (ffffffff81c0ffee)"),
            Some(Frame::Arrow("schedule"))
        );
        assert_eq!(Frame::read(" => schedule"), Some(Frame::Arrow("schedule")));
        assert_eq!(Frame::read("accede to it"), None);
    }
}
