//! Parses the fields of an event from its text, in all forms that are printed by the kernel,
//! trace-cmd and perf.

use std::collections::BTreeMap;

use punctual_model::{Comm, EventFields, EventKind, EventSpec, KernelEvent, Text, Vector, unmask};

use super::line::seconds;
use super::names::Names;

/// Maximum number of fields that an event in the table has.
const MOST_FIELDS: usize = 8;

/// The texts of the fields, by the index of each in [`EventSpec::fields`].
type Texts<'a> = [Option<&'a str>; MOST_FIELDS];

/// Decodes the text of an event. Returns `None` if a required field is missing or has an unknown
/// form.
pub(super) fn decode(
    spec: &EventSpec,
    vector: &Vector,
    text: &str,
    names: &mut Names,
    symbols: &mut BTreeMap<u64, String>,
) -> Option<EventKind> {
    // A program that copied the text may have doubled blanks.
    read(spec, vector, text, names, symbols).or_else(|| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let single = words.join(" ");
        let is_changed = single != text;
        is_changed.then(|| read(spec, vector, &single, names, symbols))?
    })
}

fn read(
    spec: &EventSpec,
    vector: &Vector,
    text: &str,
    names: &mut Names,
    symbols: &mut BTreeMap<u64, String>,
) -> Option<EventKind> {
    let texts = split(spec, text)?;
    let mut fields = Fields {
        values: [const { Value::Absent }; MOST_FIELDS],
        words: Vec::new(),
        names,
    };
    for ((field, text), value) in spec.fields.iter().zip(texts).zip(&mut fields.values) {
        match (*field, text) {
            (_, None) => (),
            ("args", Some(text)) => {
                let words = text.split(',').map(|word| hex(word.trim()));
                fields.words = words.collect::<Option<_>>()?;
            }
            (field, Some(text)) => *value = value_of(field, text, fields.names, symbols)?,
        }
    }
    spec.event.decode(&mut fields, vector)
}

/// Returns whether the text is complete but lacks a field that the event needs. This is the case
/// for `workqueue_execute_end` from a kernel before 5.8, which does not print the function, and for
/// the output of `trace-cmd report -R`, which shows the arguments of system calls as bytes.
pub(super) fn lacks_fields(spec: &EventSpec, text: &str) -> bool {
    match spec.event {
        KernelEvent::WorkqueueExecuteEnd => {
            text.starts_with("work struct ") && !text.ends_with(':') && !text.contains(": ")
        }
        KernelEvent::SysEnter => text.contains("args=ARRAY["),
        _ => false,
    }
}

/// Builds a kernel stack from the addresses of its functions.
pub(super) fn stack(frames: Vec<u64>, names: &mut Names) -> Option<EventKind> {
    let mut values = [const { Value::Absent }; MOST_FIELDS];
    values[0] = Value::Number(frames.len() as i64);
    let mut fields = Fields {
        values,
        words: frames,
        names,
    };
    KernelEvent::KernelStack.decode(&mut fields, &Vector::LocalTimer)
}

/// The value of a field.
enum Value<'a> {
    Absent,
    /// A number. An unsigned number is stored with the same bits.
    Number(i64),
    Name(&'a str),
}

struct Fields<'a, 'n> {
    values: [Value<'a>; MOST_FIELDS],
    /// The elements of the field that is an array, if the event has one.
    words: Vec<u64>,
    names: &'n mut Names,
}

impl Fields<'_, '_> {
    fn name(&self, number: usize) -> Option<&str> {
        match self.values.get(number)? {
            Value::Name(name) => Some(name),
            _ => None,
        }
    }
}

impl EventFields for Fields<'_, '_> {
    fn u64(&self, number: usize) -> Option<u64> {
        self.i64(number).map(|value| value as u64)
    }

    fn i64(&self, number: usize) -> Option<i64> {
        match self.values.get(number)? {
            Value::Number(value) => Some(*value),
            _ => None,
        }
    }

    fn comm(&self, number: usize) -> Option<Comm> {
        self.name(number).map(|name| Comm::new(name.as_bytes()))
    }

    fn text(&mut self, number: usize) -> Option<Text> {
        match self.values.get(number)? {
            Value::Name(name) => Some(self.names.text(name)),
            _ => None,
        }
    }

    fn word(&self, _: usize, index: usize) -> Option<u64> {
        self.words.get(index).copied()
    }

    fn words(&self, _: usize, count: usize) -> Option<Vec<u64>> {
        self.words.get(..count).map(<[u64]>::to_vec)
    }

    fn in_text(&self, number: usize) -> Option<u64> {
        self.u64(number)
    }

    fn cpus(&self, number: usize) -> Option<Vec<u32>> {
        Some(cpus_of_mask(self.name(number)?).unwrap_or_default())
    }
}

/// Parses a bitmap of CPUs. Some kernels print a list of CPUs instead, so this returns `None` for
/// text that could be a list, such as `3` or `10`, but not for `03`, `f` or `1,00000000`.
fn cpus_of_mask(text: &str) -> Option<Vec<u32>> {
    let (first, others) = text.split_once(',').unwrap_or((text, ""));
    let is_mask = (others.split(',')).all(|group| group.len() == 8)
        || (first.len() > 1 && first.starts_with('0'))
        || first.bytes().any(|byte| byte.is_ascii_alphabetic());
    let cpus = unmask(text).filter(|_| is_mask)?;
    Some(cpus.iter().collect())
}

fn value_of<'a>(
    field: &str,
    text: &'a str,
    names: &mut Names,
    symbols: &mut BTreeMap<u64, String>,
) -> Option<Value<'a>> {
    Some(Value::Number(match field {
        "comm" | "prev_comm" | "next_comm" | "name" | "desc" | "cpumask" => {
            return Some(Value::Name(text));
        }
        "hrtimer" | "timer" | "work" | "function" | "address" | "ip" | "callsite" | "callback"
        | "caller_offs" | "parent_offs" | "lock_addr" | "handler" => {
            if text.is_empty() {
                return None;
            }
            names.address(text, symbols) as i64
        }
        "prev_state" => i64::from(state(text)?),
        "dev" => device(text)?,
        "start" if text.contains('.') => seconds(text)?.0.0 as i64,
        "ret" if text == "handled" => 1,
        "ret" if text == "unhandled" => 0,
        "flags" => lock_flags(text)?,
        _ => number(text)?,
    }))
}

/// Parses a number of up to 64 bits, which may be signed or unsigned, in decimal or in hexadecimal
/// with `0x`.
fn number(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .ok()
            .map(|value| value as i64);
    }
    let signed = text.parse::<i64>().ok();
    signed.or_else(|| text.parse::<u64>().ok().map(|value| value as i64))
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Parses a device: `254,0`, or the kernel's internal number.
fn device(text: &str) -> Option<i64> {
    let Some((major, minor)) = text.split_once(',') else {
        return number(text);
    };
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(i64::from(major << 20 | minor))
}

/// Parses the letters of `prev_state`. Since Linux 4.14, `+` means preempted. Earlier kernels swap
/// `Z` and `X`, and also print `x`, `K`, `W` and `N`. For an idle kernel thread, trace-cmd before
/// 3.2 prints `W`.
fn state(text: &str) -> Option<u32> {
    if let Some(bits) = number(text) {
        return u32::try_from(bits).ok();
    }
    let mut bits = 0;
    for letter in text.chars() {
        bits |= match letter {
            'R' | '|' => 0,
            'S' => 0x1,
            'D' => 0x2,
            'T' => 0x4,
            't' => 0x8,
            'X' => 0x10,
            'Z' => 0x20,
            'x' => 0x30,
            'P' => 0x40,
            'I' | 'W' => 0x80,
            '+' => 0x100,
            // TASK_WAKEKILL and TASK_NOLOAD are printed together with D.
            'K' | 'N' if bits & 0x2 != 0 => 0,
            _ => return None,
        };
    }
    (!text.is_empty()).then_some(bits)
}

fn lock_flags(text: &str) -> Option<i64> {
    if let Some(bits) = number(text) {
        return Some(bits);
    }
    let mut bits = 0;
    for flag in text.split('|').filter(|flag| !flag.is_empty()) {
        bits |= match flag {
            "SPIN" => 1,
            "READ" => 2,
            "WRITE" => 4,
            "RT" => 8,
            "PERCPU" => 16,
            "MUTEX" => 32,
            _ => return None,
        };
    }
    Some(bits)
}

/// Splits the text of an event into the texts of its fields.
fn split<'a>(spec: &EventSpec, text: &'a str) -> Option<Texts<'a>> {
    let mut texts = [None; MOST_FIELDS];
    let mut set = |values: &[&'a str]| {
        for (place, value) in texts.iter_mut().zip(values) {
            *place = Some(*value);
        }
    };
    match spec.event {
        KernelEvent::SchedSwitch if !text.starts_with("prev_comm=") => {
            set(&switch_of_plugin(text)?);
        }
        KernelEvent::SchedSwitch => return Some(switch(spec, text)),
        KernelEvent::SchedWaking | KernelEvent::SchedWakeup | KernelEvent::SchedWakeupNew
            if !text.starts_with("comm=") =>
        {
            let ([comm, pid, prio], rest) = thread(text)?;
            set(&[comm, pid, prio, rest.rsplit_once("CPU:")?.1.trim()]);
        }
        KernelEvent::WorkqueueExecuteStart | KernelEvent::WorkqueueExecuteEnd
            if text.starts_with("work struct ") =>
        {
            let (work, function) = text["work struct ".len()..].split_once(": function ")?;
            set(&[work, first_word(function)]);
        }
        KernelEvent::NmiHandler if !text.starts_with("handler=") => {
            let (handler, rest) = text.split_once(" delta_ns: ")?;
            let (delta, handled) = rest.split_once(" handled: ")?;
            set(&[handler, delta, first_word(handled)]);
        }
        KernelEvent::ContentionBegin | KernelEvent::ContentionEnd
            if !text.starts_with("lock_addr=") =>
        {
            let (lock, rest) = text.split_once(" (")?;
            let (_, value) = rest.split_once('=')?;
            set(&[lock, value.split_once(')')?.0]);
        }
        KernelEvent::SysEnter if text.starts_with("NR ") => {
            let (id, args) = text["NR ".len()..].split_once(" (")?;
            set(&[id, args.split_once(')')?.0]);
        }
        KernelEvent::SysExit if text.starts_with("NR ") => {
            let (id, ret) = text["NR ".len()..].split_once(" = ")?;
            set(&[id, first_word(ret)]);
        }
        KernelEvent::BlockRqIssue | KernelEvent::BlockRqComplete if !text.contains("sector=") => {
            // `254,0 RA 8192 () 184508184 + 16 be,0,4 [make]`. The command can contain any
            // characters.
            let (before, _) = text.split_once(" + ")?;
            set(&[first_word(before), before.rsplit_once(' ')?.1]);
        }
        KernelEvent::IrqNoise
        | KernelEvent::SoftirqNoise
        | KernelEvent::ThreadNoise
        | KernelEvent::NmiNoise
        | KernelEvent::SampleThreshold
            if !text.contains("start=") =>
        {
            set(&noise(text)?);
        }
        _ => return Some(keyed(spec, text)),
    }
    Some(texts)
}

/// Splits `key=value` words. A comm ends before the key that follows it, and the name of an
/// interrupt ends at the end of the text, because both can contain spaces.
fn keyed<'a>(spec: &EventSpec, text: &'a str) -> Texts<'a> {
    let mut texts = [None; MOST_FIELDS];
    for (field, value) in spec.fields.iter().zip(&mut texts) {
        *value = keyed_field(field, text);
    }
    texts
}

fn keyed_field<'a>(field: &str, text: &'a str) -> Option<&'a str> {
    // The preemptirq events print addresses with keys that are shorter than the names of the
    // fields.
    let key = field.strip_suffix("_offs").unwrap_or(field);
    let rest = match text
        .strip_prefix(key)
        .and_then(|rest| rest.strip_prefix('='))
    {
        Some(rest) => rest,
        None => after_last(text, key)?,
    };
    match field {
        "comm" => rest.rfind(" pid=").map(|end| &rest[..end]),
        "prev_comm" => rest.rfind(" prev_pid=").map(|end| &rest[..end]),
        "next_comm" => rest.rfind(" next_pid=").map(|end| &rest[..end]),
        "name" => Some(rest),
        _ => Some(first_word(rest)),
    }
}

/// Returns the text after the last ` key=`. The last one is used because a comm before it may
/// contain the same word.
fn after_last<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut begins = text.rmatch_indices(key);
    begins.find_map(|(begin, _)| {
        let is_word = text[..begin].ends_with(' ');
        let value = text[begin + key.len()..].strip_prefix('=');
        value.filter(|_| is_word)
    })
}

/// Splits a context switch in the form that the kernel prints. The arrow and the key after it are
/// together longer than a comm, so no comm can contain them.
fn switch<'a>(spec: &EventSpec, text: &'a str) -> Texts<'a> {
    let arrow = text.find(" ==> next_comm=");
    let (prev, next) = text.split_at(arrow.unwrap_or(0));
    let mut texts = [None; MOST_FIELDS];
    for (field, value) in spec.fields.iter().zip(&mut texts) {
        let half = match arrow {
            Some(_) if field.starts_with("prev") => prev,
            Some(_) => &next[" ==> ".len()..],
            None => text,
        };
        *value = keyed_field(field, half);
    }
    texts
}

/// Splits a context switch in the form that trace-cmd prints: `make:14006 [120] R ==> swapper/0:0
/// [120]`.
fn switch_of_plugin(text: &str) -> Option<[&str; 7]> {
    text.match_indices(" ==> ").find_map(|(arrow, separator)| {
        let (prev, prev_state) = thread(&text[..arrow])?;
        let (next, _) = thread(&text[arrow + separator.len()..])?;
        let prev_state = prev_state.trim();
        state(prev_state)?;
        Some([
            prev[0], prev[1], prev[2], next[0], next[1], next[2], prev_state,
        ])
    })
}

/// Splits a thread in the form that trace-cmd prints, `make:14006 [120] rest`, into the comm,
/// thread ID and priority. Also returns the rest of the text.
fn thread(text: &str) -> Option<([&str; 3], &str)> {
    let (before, rest) = text.rsplit_once(" [")?;
    let (prio, rest) = rest.split_once(']')?;
    let (comm, pid) = before.rsplit_once(':')?;
    number(pid)?;
    Some(([comm, pid, prio], rest))
}

/// Splits `eth0:24 start 5789.857529929 duration 1845 ns` into the start, duration, number and
/// name. In `start 5789.858404871 duration 8812 ns interference 2`, the third value is the
/// interference.
fn noise(text: &str) -> Option<[&str; 4]> {
    let (who, rest) = match text.strip_prefix("start ") {
        Some(rest) => ("", rest),
        None => text.rsplit_once(" start ")?,
    };
    let (start, rest) = rest.split_once(" duration ")?;
    let (duration, rest) = rest.split_once(" ns")?;
    let (name, number) = who.rsplit_once(':').unwrap_or_default();
    let third = match rest.trim().strip_prefix("interference") {
        Some(count) => first_word(count.trim_start_matches('s')),
        None => number,
    };
    Some([start.trim(), duration.trim(), third, name.trim_start()])
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
