//! System calls in the text of the events of the system `syscalls`.

use crate::listed::call_of;

/// The operations of futex(2) by number, and its flags (`include/uapi/linux/futex.h`).
const OPERATIONS: [&str; 14] = [
    "WAIT",
    "WAKE",
    "FD",
    "REQUEUE",
    "CMP_REQUEUE",
    "WAKE_OP",
    "LOCK_PI",
    "UNLOCK_PI",
    "TRYLOCK_PI",
    "WAIT_BITSET",
    "WAKE_BITSET",
    "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI",
    "LOCK_PI2",
];
const FLAGS: [(&str, u64); 2] = [("PRIVATE_FLAG", 128), ("CLOCK_REALTIME", 256)];

/// A system call of this name.
#[derive(Debug)]
pub(super) enum SystemCall<'a> {
    /// Its begin, with its first arguments.
    Called(&'a str, [u64; 2]),
    /// Its end, with its result.
    Returned(&'a str, i64),
}

/// Finds the begin or the end of a system call: `sys_futex(uaddr: 7f00, op: 80)` and `sys_futex -> 0x0`
/// (tracefs), or `syscalls:sys_enter_futex: uaddr: 0x00007f00, op: 0x00000080` and
/// `syscalls:sys_exit_futex: 0x0` (perf, trace-cmd).
pub(super) fn system_call(rest: &str) -> Option<SystemCall<'_>> {
    let (call, ends, text) = if let Some((call, result)) = rest.split_once(" -> ") {
        (call.strip_prefix("sys_")?, true, result)
    } else if let Some((call, args)) = rest.split_once('(')
        && let Some(call) = call.strip_prefix("sys_")
        && is_name(call)
    {
        (call, false, args.strip_suffix(')')?)
    } else {
        let rest = rest.strip_prefix("syscalls:").unwrap_or(rest);
        let (event, text) = rest.split_once(':')?;
        let (call, ends) = call_of(event)?;
        (call, ends, text)
    };
    if !is_name(call) {
        return None;
    }
    Some(if ends {
        let result = text.trim().strip_prefix("0x")?;
        // A kernel for 32 bits prints fewer digits.
        SystemCall::Returned(
            call,
            match u64::from_str_radix(result, 16).ok()? {
                short @ 0x8000_0000..=0xffff_ffff => i64::from(short as u32 as i32),
                long => long as i64,
            },
        )
    } else {
        SystemCall::Called(call, arguments(text.trim())?)
    })
}

pub(super) fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Parses the first two arguments of a system call: hexadecimal numbers behind their names.
fn arguments(text: &str) -> Option<[u64; 2]> {
    if text.contains("FUTEX_") {
        return futex_arguments(text);
    }
    let mut args = [0; 2];
    let texts = text.split(", ").filter(|text| !text.is_empty());
    for (arg, text) in args.iter_mut().zip(texts) {
        let value = text.split_once(": ")?.1.split(' ').next()?;
        let digits = value.strip_prefix("0x").unwrap_or(value);
        *arg = u64::from_str_radix(digits, 16).ok()?;
    }
    Some(args)
}

/// Parses the arguments of futex(2) as trace-cmd and Linux 7.0 print them: the operation by name, behind
/// or before the address.
fn futex_arguments(text: &str) -> Option<[u64; 2]> {
    let (_, rest) = text.split_once("uaddr")?;
    let address = rest
        .trim_start_matches([':', '=', ' '])
        .strip_prefix("0x")?;
    let address = address.split([' ', ',']).next()?;
    let begin = text.find("FUTEX_")?;
    let operation = text[begin..].split([' ', ',']).next()?;
    let bits = operation.split('|').map(|name| {
        let name = name.strip_prefix("FUTEX_")?;
        let flag = FLAGS.iter().find(|(flag, _)| *flag == name);
        let number = || OPERATIONS.iter().position(|one| *one == name);
        flag.map_or_else(|| Some(number()? as u64), |(_, bit)| Some(*bit))
    });
    let bits: Option<Vec<u64>> = bits.collect();
    let address = u64::from_str_radix(address, 16).ok()?;
    Some([address, bits?.into_iter().fold(0, |all, one| all | one)])
}
