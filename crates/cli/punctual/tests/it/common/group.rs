//! A control group with a CPU quota, and threads that compete for its CPU time.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A control group that may use the CPU for 20 ms in every 100 ms. It is removed when this value is
/// dropped.
pub struct QuotaGroup(pub PathBuf);

impl QuotaGroup {
    /// Returns `None` and prints the reason if control groups are not available here.
    pub fn new(what: &str) -> Option<Self> {
        let name = format!("punctual-test-{what}-{}", std::process::id());
        let mounts: [(&str, &[(&str, &str)]); 2] = [
            (
                "/sys/fs/cgroup/cpu",
                &[
                    ("cpu.cfs_period_us", "100000"),
                    ("cpu.cfs_quota_us", "20000"),
                ],
            ),
            ("/sys/fs/cgroup", &[("cpu.max", "20000 100000")]),
        ];
        for (mount, settings) in mounts {
            let group = Self(PathBuf::from(mount).join(&name));
            let made = fs::create_dir(&group.0);
            let set = |(file, text): &(&str, &str)| fs::write(group.0.join(file), text);
            if made
                .and_then(|()| settings.iter().try_for_each(set))
                .is_ok()
            {
                return Some(group);
            }
        }
        punctual_testing::skip!(Right, "no control group with a CPU quota can be made here");
        None
    }

    /// Kills the processes in the group. These are children of a process that a test has started
    /// and killed.
    fn end_all(&self) {
        let members = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines().filter_map(|line| line.parse().ok()) {
            let pid = rustix::process::Pid::from_raw(pid);
            let signal = rustix::process::Signal::KILL;
            pid.map(|pid| rustix::process::kill_process(pid, signal));
        }
    }

    /// Returns a command that runs in the group.
    pub fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.0.join("cgroup.procs"))
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // A process leaves the group shortly after it has ended.
        super::eventually(|| {
            self.end_all();
            fs::remove_dir(&self.0).is_ok() || !self.0.exists()
        });
    }
}

/// Runs `work` while two spinning threads outside of the group compete for the CPU.
pub fn with_spinners<T>(cpu: u32, work: impl FnOnce() -> T) -> T {
    let stop = Arc::new(AtomicBool::new(false));
    let spinner = |_| {
        let stop = Arc::clone(&stop);
        let builder = punctual_rt::ThreadBuilder::new("outsider").cpus(&[cpu]);
        let spin = move || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        builder.spawn(spin).unwrap()
    };
    let spinners: Vec<_> = (0..2).map(spinner).collect();
    let done = work();
    stop.store(true, Ordering::Relaxed);
    spinners
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    done
}
