//! The time of late jobs in excess of other jobs, by stack.

use crate::Nanos;

/// Stacks, weighted by the time that late jobs spend there in excess of the other jobs of the same
/// thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatenessProfile {
    /// Number of late jobs.
    pub late_jobs: u64,
    /// Number of the other jobs.
    pub other_jobs: u64,
    /// Total time of the late jobs, minus the mean of the other jobs for each of them.
    pub excess: Nanos,
    /// CPU time between two samples of a thread.
    pub interval: Nanos,
    /// The stacks, the largest excess first. Stacks without excess are left out.
    pub stacks: Vec<ExcessStack>,
    /// The part of the excess that threads waited for a CPU.
    pub runnable: Nanos,
    /// The functions, the largest excess first. Functions without excess are left out.
    pub functions: Vec<ExcessFunction>,
}

/// A stack and its excess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcessStack {
    /// Title of the thread.
    pub thread: String,
    /// The state of the thread.
    pub state: ProfileState,
    /// Whether callers are unknown: the outermost function does not begin a thread.
    pub is_incomplete: bool,
    /// The functions, the outermost first. For a wait, they are followed by the thread that ended it
    /// and by its functions, the innermost first.
    pub frames: Vec<ProfileFrame>,
    /// The excess of all late jobs.
    pub excess: Nanos,
    /// Number of samples or waits in late jobs.
    pub samples: u64,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProfileState {
    /// It was on the CPU.
    Running,
    /// It waited for a CPU.
    Runnable,
    /// It waited for something else.
    Waiting,
}

impl ProfileState {
    /// Returns the state in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Running => "on the CPU",
            Self::Runnable => "waiting for a CPU",
            Self::Waiting => "waiting",
        }
    }
}

/// A function and its excess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcessFunction {
    /// The function: the innermost of the program's own functions in a stack.
    pub frame: ProfileFrame,
    /// The excess of all late jobs in this function and what it called.
    pub excess: Nanos,
    /// The part of it that was spent waiting.
    pub waiting: Nanos,
    /// The innermost function of the stack with the largest excess, and what ended the wait.
    pub innermost: String,
}

/// A part of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileFrame {
    /// The function, or as much as is known of the address.
    pub name: String,
    /// The file that contains it. `None` in the kernel, and for a remark.
    pub file: Option<String>,
    /// The place of the code.
    pub of: FrameOf,
}

/// The place of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameOf {
    /// In the program itself.
    Program,
    /// In a library.
    Library,
    /// In the kernel.
    Kernel,
    /// In the thread that ended the wait.
    Waker,
    /// Not a function, but a remark, such as who ended the wait.
    Remark,
}

/// Beginnings of the names of functions that belong to the runtime of a language, although they are
/// linked into the program.
const RUNTIMES: [&str; 15] = [
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "__rust",
    "_start",
    "__libc_",
    "runtime.",
    "time.",
    "sync.",
    "internal/",
    "syscall.",
    "__gnu_cxx::",
];

impl ProfileFrame {
    /// Returns whether this is a function that the developer of the program can change.
    fn is_own(&self) -> bool {
        let is_runtime = RUNTIMES.iter().any(|begin| self.name.starts_with(begin));
        self.of == FrameOf::Program && !is_runtime
    }
}

impl ExcessStack {
    /// Returns the function that this stack counts for: the innermost of the program's own functions.
    /// Without one, this is the innermost function in a library, or else in the kernel.
    pub fn function(&self) -> Option<&ProfileFrame> {
        let last = |fits: &dyn Fn(&ProfileFrame) -> bool| self.frames.iter().rfind(|one| fits(one));
        last(&ProfileFrame::is_own)
            .or_else(|| last(&|one| one.of == FrameOf::Library))
            .or_else(|| last(&|one| one.of == FrameOf::Program))
            .or_else(|| last(&|one| one.of == FrameOf::Kernel))
    }

    /// Returns the innermost function of the thread. For a wait, this is the one in user space,
    /// followed by the end of the wait.
    pub fn innermost(&self) -> Option<String> {
        let has = |of: &[FrameOf]| self.frames.iter().rfind(|one| of.contains(&one.of));
        let (user, kernel) = ([FrameOf::Program, FrameOf::Library], [FrameOf::Kernel]);
        if self.state == ProfileState::Running {
            return has(&kernel).or(has(&user)).map(|one| one.name.clone());
        }
        let name = has(&user).or(has(&kernel))?.name.clone();
        Some(match has(&[FrameOf::Remark]) {
            Some(end) => format!("{name} {}", end.name),
            None => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, of: FrameOf) -> ProfileFrame {
        ProfileFrame {
            name: name.to_owned(),
            file: None,
            of,
        }
    }

    #[test]
    fn innermost_own_function_counts() {
        use FrameOf::{Kernel, Library, Program, Remark, Waker};
        let mut stack = ExcessStack {
            thread: "t".to_owned(),
            state: ProfileState::Waiting,
            is_incomplete: false,
            frames: vec![
                frame("__libc_start_main", Library),
                frame("main", Program),
                frame("step", Program),
                frame(
                    "std::sys::sync::mutex::futex::Mutex::lock_contended",
                    Program,
                ),
                frame("syscall", Library),
                frame("do_futex", Kernel),
                frame("[woken by holder]", Remark),
                frame("unlock", Waker),
            ],
            excess: Nanos(1),
            samples: 1,
        };
        let name = |one: Option<&ProfileFrame>| one.map(|one| one.name.clone()).unwrap();
        assert_eq!(name(stack.function()), "step");
        let innermost = stack.innermost().unwrap();
        assert_eq!(innermost, "syscall [woken by holder]");
        stack.state = ProfileState::Running;
        assert_eq!(stack.innermost().unwrap(), "do_futex");
        stack.frames.drain(..4);
        assert_eq!(name(stack.function()), "syscall");
        stack.frames.remove(0);
        assert_eq!(name(stack.function()), "do_futex");
        stack.frames.remove(0);
        assert_eq!((stack.function(), stack.innermost()), (None, None));
    }
}
