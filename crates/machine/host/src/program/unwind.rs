//! Finds the callers of a place in a program from its registers and a copy of its stack, by the
//! section .eh_frame of its files.

use std::os::unix::fs::FileExt;

use punctual_model::Registers;

use super::allowance::Allowance;
use super::functions::Functions;
use super::rows::{Base, Caller, Frame, Rule, Saved};
use super::{MOST_CALLS, ProgramCode, Region, region};
use crate::root::Root;

/// Maximum number of functions on a stack.
const MOST_CALLERS: usize = 128;

/// Maximum size of the code that the kernel maps into each process, in bytes.
const LARGEST_VDSO: u64 = 1 << 20;

/// What is known of a function on the stack.
#[derive(Clone, Copy)]
struct Place {
    ip: u64,
    sp: u64,
    fp: Option<u64>,
    /// The return address, if the function has called no other.
    lr: Option<u64>,
}

/// A copy of the stack.
struct Words<'a> {
    from: u64,
    words: &'a [u64],
}

impl Words<'_> {
    fn at(&self, address: u64) -> Option<u64> {
        let bytes = address.checked_sub(self.from)?;
        let place = usize::try_from(bytes / 8).ok()?;
        let word = self.words.get(place).copied();
        word.filter(|_| bytes.is_multiple_of(8))
    }
}

impl Place {
    fn base(&self, base: Base) -> Option<u64> {
        match base {
            Base::StackPointer => Some(self.sp),
            Base::FramePointer => self.fp,
        }
    }

    /// Returns the caller. Its stack pointer is never lower.
    fn caller(&self, rule: &Rule, stack: &Words<'_>) -> Option<Self> {
        let at = |base, offset: i32| self.base(base)?.checked_add_signed(offset.into());
        let frame = match rule.frame {
            Frame::At(base, offset) => at(base, offset)?,
            Frame::In(base, offset) => stack.at(at(base, offset)?)?,
            Frame::Linkage(pushed) => {
                let has_pushed = self.ip & 15 >= pushed.unsigned_abs().into();
                self.sp.checked_add(if has_pushed { 16 } else { 8 })?
            }
        };
        let saved = |saved, same| match saved {
            Saved::Same => same,
            Saved::InFrame(offset) => stack.at(frame.checked_add_signed(offset.into())?),
            Saved::In(base, offset) => stack.at(at(base, offset)?),
            Saved::Unknown => None,
        };
        let ip = saved(rule.ip, self.lr)?;
        // Only an innermost function of arm64 can have a frame without a word.
        (frame > self.sp || (frame == self.sp && self.lr.is_some())).then_some(Self {
            ip: without_signature(ip),
            sp: frame,
            fp: saved(rule.fp, self.fp),
            lr: None,
        })
    }

    /// Returns the caller of a function with a frame pointer. On arm64, its stack pointer would be
    /// unknown.
    fn by_frame_pointer(&self, stack: &Words<'_>) -> Option<Self> {
        let fp = self
            .fp
            .filter(|fp| cfg!(target_arch = "x86_64") && *fp >= self.sp)?;
        Some(Self {
            ip: stack.at(fp.checked_add(8)?)?,
            sp: fp.checked_add(16)?,
            fp: stack.at(fp),
            lr: None,
        })
    }
}

/// Removes the signature of a return address (pointer authentication of arm64).
const fn without_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") {
        address & ((1 << 48) - 1)
    } else {
        address
    }
}

impl ProgramCode {
    /// Returns the addresses of a stack, the innermost first, and whether they are all: the last
    /// function has no caller. `words` is a copy of the stack from the stack pointer. `chain` are the
    /// addresses that frame pointers show; it continues a stack that is longer than the copy.
    ///
    /// [`finding_callers`](Self::finding_callers) must have been called.
    pub fn unwind(
        &mut self,
        registers: &Registers,
        words: &[u64],
        chain: &[u64],
    ) -> (Vec<u64>, bool) {
        let stack = Words {
            from: registers.sp,
            words,
        };
        let mut place = Place {
            ip: registers.ip,
            sp: registers.sp,
            fp: Some(registers.fp),
            lr: (registers.lr != 0).then_some(registers.lr),
        };
        let mut found = vec![place.ip];
        while found.len() < MOST_CALLERS {
            // The call may be the last instruction of a function, before another one.
            let back = u64::from(found.len() > 1);
            let next = match self.caller(place.ip.saturating_sub(back)) {
                Caller::None => return (found, true),
                Caller::Some(rule) => place.caller(&rule, &stack),
                Caller::Unknown => {
                    let next = place.by_frame_pointer(&stack);
                    next.filter(|next| self.is_return_address(next.ip))
                }
            };
            match next {
                // The outermost function of a process or thread without a description.
                Some(next) if next.ip == 0 => return (found, true),
                Some(next) if self.is_code(next.ip) => place = next,
                _ => break,
            }
            found.push(place.ip);
        }
        if let Some(at) = chain.iter().position(|one| *one == place.ip) {
            let rest = chain[at + 1..].iter().copied();
            found.extend(rest.take_while(|address| self.is_code(*address)));
        }
        (found, false)
    }

    fn caller(&mut self, address: u64) -> Caller {
        if let Some(known) = self.callers.get(&address) {
            return *known;
        }
        let caller = self.caller_in_file(address);
        if self.callers.len() < MOST_CALLS {
            self.callers.insert(address, caller);
        }
        caller
    }

    fn caller_in_file(&mut self, address: u64) -> Caller {
        let Some(region) = self.region(address).cloned() else {
            return Caller::Unknown;
        };
        let place = (address - region.start).saturating_add(region.offset);
        let Some(file) = self.file(&region) else {
            return Caller::Unknown;
        };
        let address = file.address(place);
        address.map_or(Caller::Unknown, |address| file.caller(address))
    }
}

/// Reads the code that the kernel maps into each process. The kernel maps the same code into this
/// process, where no other process can have changed it.
pub(super) fn vdso(root: &Root, theirs: &Region, allowance: &mut Allowance) -> Option<Functions> {
    let size = theirs.end - theirs.start;
    if !root.is_live() || size > LARGEST_VDSO {
        return None;
    }
    let maps = root.raw_text("/proc/self/maps").ok()?;
    let own = maps.lines().filter_map(region).find(|own| own.is_vdso())?;
    // A 32-bit process has different code.
    if own.end - own.start != size {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    let memory = root.open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, own.start).ok()?;
    Functions::read_bytes(&bytes, allowance).ok()
}
