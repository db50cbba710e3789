//! The systemd unit file of the service.

use anyhow::Result;
use punctual_command::unit::quoted;
use punctual_model::CpuSet;

/// Path of the unit file, in the folder for units of the administrator: systemd.unit(5).
pub(super) const UNIT_PATH: &str = "/etc/systemd/system/punctual-monitor.service";

/// Values for the unit file.
#[derive(Clone, Debug)]
pub(super) struct Unit<'a> {
    /// Absolute path of the program.
    pub(super) program: &'a str,
    /// Absolute path of the plan.
    pub(super) plan: &'a str,
    /// Absolute path of the store.
    pub(super) store: &'a str,
    /// The folder of the store.
    pub(super) folder: &'a str,
    /// Housekeeping CPUs: no series measures them, and the service itself runs there. `None` if all
    /// CPUs are measured.
    pub(super) housekeeping: Option<&'a CpuSet>,
}

/// Returns the text of the unit file.
///
/// # Errors
/// Returns an error for a path with control characters, because systemd also ends a line at `\r`.
pub(super) fn unit_file(unit: &Unit<'_>) -> Result<String> {
    let affinity = match unit.housekeeping {
        Some(cpus) => format!(
            "# Housekeeping CPUs. Measuring threads set their own affinity.\nCPUAffinity={cpus}\n"
        ),
        None => "# All CPUs are measured, so no CPU is left for housekeeping.\n#CPUAffinity=\n"
            .to_owned(),
    };
    let (program, plan) = (quoted(unit.program)?, quoted(unit.plan)?);
    let (store, folder) = (quoted(unit.store)?, quoted(unit.folder)?);
    Ok(format!(
        "\
[Unit]
Description=Scheduled latency measurements
Documentation=man:punctual-monitor(1)
After=time-sync.target local-fs.target

[Service]
Type=notify
ExecStart={program} --store {store} monitor run --plan {plan}
WatchdogSec=180
Restart=on-failure
RestartSec=10
# A running measurement is recorded as interrupted. Loads need time to end.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=60

# Only the measuring threads of the service have a real-time policy.
CPUSchedulingPolicy=other
RestrictRealtime=no
LimitRTPRIO=99
LimitMEMLOCK=infinity
{affinity}
# CAP_DAC_READ_SEARCH is needed because only root can read tracefs.
AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
UMask=0077
RuntimeDirectory=punctual
RuntimeDirectoryPreserve=yes
RuntimeDirectoryMode=0755
ProtectSystem=strict
ReadWritePaths={folder}
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
# PrivateDevices is not set, because it hides /dev/cpu_dma_latency.
# ProtectKernelTunables is not set, because it makes tracefs read-only.

[Install]
WantedBy=multi-user.target
"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_paths_are_refused() {
        for bad in ["/a\rExecStartPre=/bin/sh", "/a\nb", "/a\u{85}b", "/a\0b"] {
            for place in 0..5 {
                let path = |number| if number == place { bad } else { "/a b" };
                let unit = Unit {
                    program: path(1),
                    plan: path(2),
                    store: path(3),
                    folder: path(4),
                    housekeeping: None,
                };
                assert_eq!(unit_file(&unit).is_ok(), place == 0, "{bad:?} {place}");
            }
        }
    }
}
