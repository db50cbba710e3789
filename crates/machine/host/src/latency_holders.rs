//! The processes that hold /dev/cpu_dma_latency open. The device limits idle states until the last
//! of these processes closes it.

use punctual_model::Reading;

use crate::Unread;
use crate::root::Root;

/// Device with the current limit on the exit latency of idle states, which is a 32-bit number
/// rather than text (`kernel/power/qos.c`).
pub(crate) const DEVICE: &str = "/dev/cpu_dma_latency";

/// The value that the kernel reports if idle states are not limited
/// (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_LIMIT: i32 = 2_000_000_000;

/// Name of this program. It is shown together with its verb, because one verb holds the device open
/// until it is ended, and others only while they measure.
const OWN: &str = "punctual";

/// Returns lines with PID and name, such as `812 tuned`, or *absent* if nothing limits the latency,
/// because in that case no process requests a limit.
pub(crate) fn read(root: &Root) -> Reading {
    let limited = match root.bytes(DEVICE) {
        Ok(bytes) => bytes != NO_LIMIT.to_ne_bytes(),
        Err(error) if root.reason(&error) == Unread::NotThere => false,
        Err(_) => true,
    };
    if !limited {
        return Reading::Absent;
    }
    let mut holders = Vec::new();
    let mut hidden = 0;
    for pid in crate::tasks::processes(root) {
        match holds(root, pid) {
            Ok(true) => holders.push(format!("{pid} {}", name(root, pid))),
            // The process has ended in the meantime.
            Ok(false) | Err(Unread::NotThere) => {}
            Err(_) => hidden += 1,
        }
    }
    match (holders.is_empty(), hidden) {
        (false, _) => Reading::Text(holders.join("\n")),
        (true, 0) => {
            Reading::Unreadable("no process in this PID namespace holds it open".to_owned())
        }
        (true, hidden) => {
            let processes = if hidden == 1 { "process" } else { "processes" };
            Reading::Unreadable(format!(
                "the open files of {hidden} {processes} of other users are hidden: run this \
                 command as root"
            ))
        }
    }
}

fn holds(root: &Root, pid: u32) -> Result<bool, Unread> {
    let folder = format!("/proc/{pid}/fd");
    let mut files = root.names(&folder)?.into_iter();
    Ok(files.any(|fd| {
        root.link(&format!("{folder}/{fd}"))
            .is_ok_and(|path| path == DEVICE)
    }))
}

/// Returns the name of a process, with the verb if it is this program.
fn name(root: &Root, pid: u32) -> String {
    let comm = root.text(&format!("/proc/{pid}/comm")).unwrap_or_default();
    if comm != OWN {
        return comm;
    }
    let arguments = root
        .text(&format!("/proc/{pid}/cmdline"))
        .unwrap_or_default();
    match arguments.split('\0').nth(1) {
        Some(verb) => format!("{comm} {verb}"),
        None => comm,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn process(folder: &std::path::Path, pid: u32, comm: &str, opened: &[&str]) {
        let own = folder.join(format!("proc/{pid}"));
        fs::create_dir_all(own.join("fd")).unwrap();
        fs::write(own.join("comm"), format!("{comm}\n")).unwrap();
        let cmdline = "punctual\0hold-latency\x000\0";
        fs::write(own.join("cmdline"), cmdline).unwrap();
        for (fd, file) in opened.iter().enumerate() {
            symlink(file, own.join(format!("fd/{fd}"))).unwrap();
        }
    }

    #[test]
    fn those_that_hold_it_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().into());
        assert_eq!(read(&root), Reading::Absent);
        let device = folder.path().join("dev/cpu_dma_latency");
        fs::create_dir_all(device.parent().unwrap()).unwrap();
        process(folder.path(), 7, "sleep", &["/dev/null"]);
        fs::write(&device, NO_LIMIT.to_ne_bytes()).unwrap();
        assert_eq!(read(&root), Reading::Absent);
        fs::write(&device, 2_i32.to_ne_bytes()).unwrap();
        assert!(matches!(read(&root), Reading::Unreadable(why) if why.contains("namespace")));
        process(folder.path(), 8, "cyclictest", &["/dev/null", DEVICE]);
        process(folder.path(), 9, "punctual", &[DEVICE]);
        let both = "8 cyclictest\n9 punctual hold-latency".to_owned();
        assert_eq!(read(&root), Reading::Text(both));
    }

    /// A real process that holds the real device open, if that is permitted.
    #[test]
    fn this_process_is_found() {
        let Ok(device) = fs::File::options().write(true).open(DEVICE) else {
            punctual_testing::skip!(Right, "{DEVICE} cannot be opened");
            return;
        };
        use std::io::Write as _;
        (&device).write_all(&1_000_000_i32.to_ne_bytes()).unwrap();
        let found = read(&Root::new("/".into()));
        let own = format!("{} ", std::process::id());
        assert!(
            matches!(&found, Reading::Text(text) if text.lines().any(|line| line.starts_with(&own))),
            "{found:?}"
        );
    }
}
