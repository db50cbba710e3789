//! Tests of what the kernel refuses without privileges. They run the same binary again as an
//! unprivileged user.
#![allow(clippy::unwrap_used)] // also in test helpers

use std::path::Path;
use std::process::Command;

use punctual_rt::{
    DmaLatency, Error, Limit, LockMode, LockedBuffer, Policy, ThreadBuilder, ThreadRef,
    lock_process_memory, max_permitted_priority, set_policy,
};

const AS_NOBODY: &str = "PUNCTUAL_RT_TEST_AS_NOBODY";

/// Runs `test` of this binary as user 65534 without capabilities.
fn rerun_as_nobody(test: &str) {
    let root = Command::new("id").arg("-u").output();
    if !root.is_ok_and(|id| id.stdout.trim_ascii() == b"0") {
        punctual_testing::skip!(User, "{test}: only root can become nobody");
        return;
    }
    let binary = std::env::current_exe().unwrap();
    let as_nobody = |command: &Path| {
        let mut setpriv = Command::new("setpriv");
        setpriv
            .args(["--reuid=65534", "--clear-groups", "--inh-caps=-all"])
            .arg(command);
        setpriv
    };
    let reachable = as_nobody(Path::new("test")).arg("-x").arg(&binary).status();
    if !reachable.is_ok_and(|status| status.success()) {
        punctual_testing::skip!(
            User,
            "{test}: no setpriv here, or nobody cannot reach {binary:?}"
        );
        return;
    }
    let output = as_nobody(&binary)
        .args(["--exact", test, "--nocapture"])
        .env(AS_NOBODY, "1")
        .output()
        .unwrap();
    let (told, warned) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{told}\n{warned}");
    // Check that the test did run, and print which tests it skipped.
    assert!(told.contains("1 passed"), "{told}");
    punctual_testing::skip_inside(&warned);
}

fn soft_limit(name: &str) -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
    let value = line[name.len()..].split_whitespace().next().unwrap();
    value.parse().ok()
}

#[test]
fn refusals_name_the_right_and_the_limit() {
    if std::env::var_os(AS_NOBODY).is_none() {
        rerun_as_nobody("refusals_name_the_right_and_the_limit");
        return;
    }
    real_time_priority();
    deadline_and_nice();
    memory();
    idle_states();
}

fn real_time_priority() {
    let allowed = soft_limit("Max realtime priority").map_or(99, |limit| limit.min(99));
    assert_eq!(u64::from(max_permitted_priority()), allowed);
    if allowed == 99 {
        punctual_testing::skip!(User, "RLIMIT_RTPRIO imposes no limit here");
        return;
    }
    let priority = u8::try_from(allowed).unwrap() + 1;
    let error = ThreadBuilder::new("refused")
        .policy(Policy::Fifo { priority })
        .spawn(|| unreachable!("it must not run"))
        .map(|thread| thread.tid())
        .unwrap_err();
    assert!(error.is_privilege());
    let Error::RealTimeRefused {
        priority: named,
        limit,
        capable,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (*named, *limit, *capable),
        (priority, Limit(Some(allowed)), false)
    );
    let text = error.to_string();
    for part in ["CAP_SYS_NICE", "RLIMIT_RTPRIO", "limits.conf", "setcap"] {
        assert!(text.contains(part), "{text}");
    }
}

fn deadline_and_nice() {
    let [runtime, period] = [1, 10].map(std::time::Duration::from_millis);
    let policy = Policy::Deadline {
        runtime,
        deadline: period,
        period,
    };
    let error = set_policy(ThreadRef::Current, &policy).unwrap_err();
    assert!(
        matches!(error, Error::DeadlineRefused { capable: false }),
        "{error}"
    );
    assert!(error.to_string().contains("CAP_SYS_NICE"));

    match set_policy(ThreadRef::Current, &Policy::Other { nice: -20 }) {
        Ok(()) => punctual_testing::skip!(User, "RLIMIT_NICE imposes no limit here"),
        Err(error) => {
            assert!(
                matches!(error, Error::NiceRefused { nice: -20, .. }),
                "{error}"
            );
            assert!(error.to_string().contains("RLIMIT_NICE of at least 40"));
        }
    }
}

fn memory() {
    let Some(limit) = soft_limit("Max locked memory") else {
        punctual_testing::skip!(User, "RLIMIT_MEMLOCK imposes no limit here");
        return;
    };
    let bytes = usize::try_from(limit).unwrap() + (1 << 20);
    let error = LockedBuffer::new(bytes).unwrap_err();
    assert!(error.is_privilege());
    let text = error.to_string();
    for part in [
        "CAP_IPC_LOCK",
        "RLIMIT_MEMLOCK",
        "memlock",
        &limit.to_string(),
    ] {
        assert!(text.contains(part), "{text}");
    }
    // More memory is mapped than may be locked, so locking the whole process fails.
    let untouched = std::hint::black_box(Vec::<u8>::with_capacity(bytes));
    let error = lock_process_memory(LockMode::OnFault).unwrap_err();
    assert!(
        matches!(error, Error::MemoryLockRefused { limit: Limit(Some(now)), .. } if now == limit),
        "{error}"
    );
    drop(untouched);
}

fn idle_states() {
    match DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), 1_000_000) {
        Err(Error::DmaLatencyAbsent { path }) => {
            punctual_testing::skip!(Kernel, "{} is absent", path.display())
        }
        Err(error) => {
            assert!(
                matches!(error, Error::DmaLatencyRefused { .. }) && error.is_privilege(),
                "{error}"
            );
            assert!(error.to_string().contains("udev"));
        }
        Ok(_) => punctual_testing::skip!(User, "{} is open to everybody", DmaLatency::DEFAULT_PATH),
    }
}
