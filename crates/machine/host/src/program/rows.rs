//! How to find the caller at each instruction of a file, from its section .eh_frame.
//!
//! The whole section becomes a table when a file is first needed. The process without privileges that
//! reads files of other users (`reader`) does this as well, so that this process never evaluates their
//! instructions while it samples. `framehop` evaluates them for each new address, in the process that
//! samples, and a loop in an expression would not end. Here, expressions are compared with the few
//! forms that compilers and C libraries use, and never evaluated.

use std::collections::HashMap;

use gimli::{
    AArch64, BaseAddresses, CfaRule, CieOrFde, CommonInformationEntry, EhFrame, Encoding,
    EndianSlice, NativeEndian, Operation, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection as _, UnwindTableRow, Vendor, X86_64,
};
use object::Architecture;
use object::read::{Object, ObjectSection as _, ReadRef};

use super::allowance::Allowance;

/// Maximum number of bytes of instructions that are evaluated for one file. The instructions that
/// functions share count again for each function.
const MOST_EVALUATED: usize = 32 << 20;

/// Maximum length of instructions that functions share, and of the header before them.
const LONGEST_SHARED: usize = 512;

/// Maximum number of different instructions that functions share.
const MOST_SHARED: usize = 65_536;

/// Maximum number of operations in a known expression.
const LONGEST_EXPRESSION: usize = 9;

type Section<'a> = EhFrame<EndianSlice<'a, NativeEndian>>;
type Shared<'a> = CommonInformationEntry<EndianSlice<'a, NativeEndian>>;

/// Limits the memory that one operation copies. x86-64 has 17 registers with rules, and arm64 saves 20.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// The registers of the caller, found at all instructions from an address up to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// As in the file.
    pub(super) address: u64,
    pub(super) caller: Caller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The file does not describe these instructions, or not in a known form.
    Unknown,
    /// The function begins a process or thread.
    None,
    /// The function has a caller.
    Some(Rule),
}

/// Describes a frame. All values are offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The address of the frame, which is also the stack pointer of the caller.
    pub(super) frame: Frame,
    /// The frame pointer of the caller.
    pub(super) fp: Saved,
    /// The return address.
    pub(super) ip: Saved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    StackPointer,
    FramePointer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A register plus an offset.
    At(Base, i32),
    /// The word at this address.
    In(Base, i32),
    /// An entry of a procedure linkage table of 16 bytes, which has pushed a word at this offset.
    Linkage(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// The register is unchanged.
    Same,
    /// The word at this offset from the frame.
    InFrame(i32),
    /// The word at an offset from a register.
    In(Base, i32),
    Unknown,
}

/// Registers of an architecture, as DWARF numbers them.
struct Numbers {
    sp: Register,
    fp: Register,
    ip: Register,
}

const X86: Numbers = Numbers {
    sp: X86_64::RSP,
    fp: X86_64::RBP,
    ip: X86_64::RA,
};

const ARM: Numbers = Numbers {
    sp: AArch64::SP,
    fp: AArch64::X29,
    ip: AArch64::X30,
};

/// Returns the rows of a file, sorted by address. If they would exceed the allowance, returns a part.
pub(super) fn read<'a, R: ReadRef<'a>>(
    elf: &object::File<'a, R>,
    allowance: &mut Allowance,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let (numbers, vendor) = match elf.architecture() {
        Architecture::X86_64 => (X86, Vendor::Default),
        Architecture::Aarch64 => (ARM, Vendor::AArch64),
        _ => return rows,
    };
    let address = |name| elf.section_by_name(name).map_or(0, |found| found.address());
    let Some(found) = elf.section_by_name(".eh_frame") else {
        return rows;
    };
    let bases = BaseAddresses::default()
        .set_eh_frame(found.address())
        .set_text(address(".text"))
        .set_got(address(".got"));
    if let Ok(bytes) = found.data() {
        let mut section = EhFrame::new(bytes, NativeEndian);
        section.set_address_size(8);
        section.set_vendor(vendor);
        let limits = (MOST_EVALUATED, allowance);
        add(&section, &bases, &numbers, limits, &mut rows);
    }
    sort(&mut rows);
    rows
}

/// Sorts rows by address. A function without a gap before it begins where the last one ends.
pub(super) fn sort(rows: &mut Vec<Row>) {
    rows.sort_by_key(|row| (row.address, row.caller == Caller::Unknown));
    rows.dedup_by_key(|row| row.address);
}

fn add(
    section: &Section<'_>,
    bases: &BaseAddresses,
    numbers: &Numbers,
    (mut left, allowance): (usize, &mut Allowance),
    rows: &mut Vec<Row>,
) {
    let mut context = Box::new(UnwindContext::<usize, Storage>::new_in());
    let mut shared: HashMap<usize, Shared<'_>> = HashMap::new();
    // A malformed entry ends the section.
    for entry in section.entries(bases).map_while(Result::ok) {
        let partial = match entry {
            CieOrFde::Cie(one) => {
                if one.entry_len() <= LONGEST_SHARED && shared.len() < MOST_SHARED {
                    shared.insert(one.offset(), one);
                }
                continue;
            }
            CieOrFde::Fde(partial) => partial,
        };
        // Shared instructions precede their functions. Looking for them elsewhere would take time.
        let known = |_: &_, _: &_, offset: gimli::EhFrameOffset| {
            let found = shared.get(&offset.0).cloned();
            found.ok_or(gimli::Error::NotCieId(offset.0 as u64))
        };
        let Ok(function) = partial.parse(known) else {
            continue;
        };
        let cie = function.cie();
        let length = function.entry_len().saturating_add(cie.entry_len());
        let Some(rest) = left.checked_sub(length) else {
            return;
        };
        left = rest;
        let encoding = cie.encoding();
        let before = rows.len();
        if let Ok(mut table) = function.rows(section, bases, &mut context) {
            while let Ok(Some(row)) = table.next_row() {
                if allowance.keep_bytes(size_of::<Row>()).is_err() {
                    break;
                }
                rows.push(Row {
                    address: row.start_address(),
                    caller: caller(row, section, encoding, numbers),
                });
            }
        }
        let end = Row {
            address: function.end_address(),
            caller: Caller::Unknown,
        };
        if allowance.keep_bytes(size_of::<Row>()).is_err() {
            // Without its end, the function would seem to continue.
            rows.truncate(before);
            return;
        }
        rows.push(end);
    }
}

fn caller(
    row: &UnwindTableRow<usize, Storage>,
    section: &Section<'_>,
    encoding: Encoding,
    numbers: &Numbers,
) -> Caller {
    let ip = match row.register(numbers.ip) {
        Some(RegisterRule::Undefined) => return Caller::None,
        rule => saved(rule, section, encoding, numbers),
    };
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            place(*register, *offset, numbers).map(|(base, offset)| Frame::At(base, offset))
        }
        CfaRule::Expression(expression) => {
            frame(&operations(expression, section, encoding), numbers)
        }
    };
    match frame {
        Some(frame) if ip != Saved::Unknown => Caller::Some(Rule {
            frame,
            fp: saved(row.register(numbers.fp), section, encoding, numbers),
            ip,
        }),
        _ => Caller::Unknown,
    }
}

fn saved(
    rule: Option<RegisterRule<usize>>,
    section: &Section<'_>,
    encoding: Encoding,
    numbers: &Numbers,
) -> Saved {
    let known = match rule {
        None | Some(RegisterRule::SameValue) => Some(Saved::Same),
        Some(RegisterRule::Offset(offset)) => i32::try_from(offset).ok().map(Saved::InFrame),
        Some(RegisterRule::Expression(expression)) => {
            match operations(&expression, section, encoding).as_slice() {
                [
                    Operation::RegisterOffset {
                        register, offset, ..
                    },
                ] => {
                    place(*register, *offset, numbers).map(|(base, offset)| Saved::In(base, offset))
                }
                _ => None,
            }
        }
        _ => None,
    };
    known.unwrap_or(Saved::Unknown)
}

/// Returns a register that is known at each frame, and the offset.
fn place(register: Register, offset: i64, numbers: &Numbers) -> Option<(Base, i32)> {
    let base = if register == numbers.sp {
        Base::StackPointer
    } else if register == numbers.fp {
        Base::FramePointer
    } else {
        return None;
    };
    Some((base, i32::try_from(offset).ok()?))
}

type Step<'a> = Operation<EndianSlice<'a, NativeEndian>>;

/// Returns the operations of an expression, or none if it is too long.
fn operations<'a>(
    expression: &UnwindExpression<usize>,
    section: &Section<'a>,
    encoding: Encoding,
) -> Vec<Step<'a>> {
    let Ok(expression) = expression.get(section) else {
        return Vec::new();
    };
    let mut all = expression.operations(encoding);
    let mut found = Vec::new();
    while let Ok(Some(operation)) = all.next() {
        if found.len() == LONGEST_EXPRESSION {
            return Vec::new();
        }
        found.push(operation);
    }
    found
}

fn frame(operations: &[Step<'_>], numbers: &Numbers) -> Option<Frame> {
    let at = |operation: &Step<'_>| match operation {
        Operation::RegisterOffset {
            register, offset, ..
        } => place(*register, *offset, numbers),
        _ => None,
    };
    match operations {
        [first] => at(first).map(|(base, offset)| Frame::At(base, offset)),
        [first, Operation::Deref { size: 8, .. }] => {
            at(first).map(|(base, offset)| Frame::In(base, offset))
        }
        // The linker's entries: the stack pointer + 8 + 8 * ((address & 15) >= offset).
        [
            first,
            Operation::RegisterOffset {
                register,
                offset: 0,
                ..
            },
            Operation::UnsignedConstant { value: 15 },
            Operation::And,
            Operation::UnsignedConstant {
                value: pushed @ 0..=15,
            },
            Operation::Ge,
            Operation::UnsignedConstant { value: 3 },
            Operation::Shl,
            Operation::Plus,
        ] if at(first) == Some((Base::StackPointer, 8)) && *register == numbers.ip => {
            Some(Frame::Linkage(*pushed as i32))
        }
        _ => None,
    }
}

impl Row {
    /// Writes the row as words that [`parse`](Self::parse) reads.
    pub(super) fn text(&self) -> String {
        let base = |base| match base {
            Base::StackPointer => "sp",
            Base::FramePointer => "fp",
        };
        let saved = |saved| match saved {
            Saved::Same => "same 0".to_owned(),
            Saved::Unknown => "unknown 0".to_owned(),
            Saved::InFrame(offset) => format!("frame {offset}"),
            Saved::In(register, offset) => format!("{} {offset}", base(register)),
        };
        let caller = match self.caller {
            Caller::Unknown => "unknown".to_owned(),
            Caller::None => "none".to_owned(),
            Caller::Some(rule) => {
                let frame = match rule.frame {
                    Frame::At(register, offset) => format!("at {} {offset}", base(register)),
                    Frame::In(register, offset) => format!("in {} {offset}", base(register)),
                    Frame::Linkage(offset) => format!("linkage sp {offset}"),
                };
                format!("{frame} {} {}", saved(rule.fp), saved(rule.ip))
            }
        };
        format!("{} {caller}", self.address)
    }

    /// Reads a row that another process wrote.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let address = words.next()?.parse().ok()?;
        let caller = match words.next()? {
            "unknown" => Caller::Unknown,
            "none" => Caller::None,
            kind => {
                let (register, offset) = (base(words.next()?)?, words.next()?.parse().ok()?);
                let frame = match kind {
                    "at" => Frame::At(register, offset),
                    "in" => Frame::In(register, offset),
                    "linkage" => Frame::Linkage(offset),
                    _ => return None,
                };
                let mut saved = || {
                    let (kind, offset) = (words.next()?, words.next()?.parse().ok()?);
                    Some(match kind {
                        "same" => Saved::Same,
                        "unknown" => Saved::Unknown,
                        "frame" => Saved::InFrame(offset),
                        register => Saved::In(base(register)?, offset),
                    })
                };
                let (fp, ip) = (saved()?, saved()?);
                Caller::Some(Rule { frame, fp, ip })
            }
        };
        words.next().is_none().then_some(Self { address, caller })
    }
}

fn base(word: &str) -> Option<Base> {
    match word {
        "sp" => Some(Base::StackPointer),
        "fp" => Some(Base::FramePointer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a section with `functions` functions of 16 bytes, which share instructions of `shared`
    /// bytes without effect.
    fn section(shared: usize, functions: u32) -> Vec<u8> {
        let entry = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
        // Version 1, no augmentation, alignments 1 and -8, return address in register 16, and the frame
        // at rsp + 8.
        let head = [0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1];
        let mut bytes = entry(&[&head[..], &vec![0; shared]].concat());
        for function in 0..functions {
            let back = bytes.len() as u32 + 4;
            let begin = u64::from(function) * 16;
            let numbers = [begin.to_le_bytes(), 16_u64.to_le_bytes()].concat();
            bytes.extend(entry(&[&back.to_le_bytes()[..], &numbers].concat()));
        }
        bytes
    }

    fn rows(bytes: &[u8], most_evaluated: usize, allowance: &mut Allowance) -> Vec<Row> {
        let mut section = EhFrame::new(bytes, NativeEndian);
        section.set_address_size(8);
        let mut rows = Vec::new();
        let bases = BaseAddresses::default().set_eh_frame(0);
        add(
            &section,
            &bases,
            &X86,
            (most_evaluated, allowance),
            &mut rows,
        );
        sort(&mut rows);
        rows
    }

    #[test]
    fn evaluation_is_limited() {
        let mut allowance = Allowance::whole();
        let mut count = |shared, functions, most| {
            let bytes = section(shared, functions);
            rows(&bytes, most, &mut allowance).len()
        };
        // Each function has a row, and the last one an end.
        assert_eq!(count(2, 100, 1 << 20), 101);
        // The shared instructions count for each function.
        assert_eq!(count(400, 100, 1 << 20), 101);
        assert!((10..30).contains(&count(400, 100, 10_000)));
        assert_eq!(count(LONGEST_SHARED, 100, 1 << 20), 0);
        allowance.kept = 50 * size_of::<Row>() as u64;
        let all = rows(&section(2, 100), 1 << 20, &mut allowance);
        assert_eq!(all.len(), 26);
        assert_eq!(all[25].caller, Caller::Unknown);
    }

    #[test]
    fn rows_are_read_as_they_are_written() {
        let bases = [Base::StackPointer, Base::FramePointer];
        let mut callers = vec![Caller::Unknown, Caller::None];
        for base in bases {
            for frame in [
                Frame::At(base, -8),
                Frame::In(base, i32::MAX),
                Frame::Linkage(11),
            ] {
                for saved in [
                    Saved::Same,
                    Saved::Unknown,
                    Saved::InFrame(i32::MIN),
                    Saved::In(base, 8),
                ] {
                    callers.push(Caller::Some(Rule {
                        frame,
                        fp: saved,
                        ip: Saved::InFrame(-8),
                    }));
                }
            }
        }
        for caller in callers {
            let row = Row {
                address: u64::MAX,
                caller,
            };
            let text = row.text();
            assert_eq!(Row::parse(&text), Some(row), "{text}");
            assert_eq!(Row::parse(&format!("{text} 1")), None);
            assert_eq!(Row::parse(&text[..text.len() - 2]), None, "{text}");
        }
    }
}
