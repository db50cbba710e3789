//! Determines when a thread spins, and when it leaves the CPU to other tasks.

use punctual_model::{KernelFacts, Nanos};

use crate::ProbeError;

/// The real-time throttle: in each period, the real-time threads of a CPU may run for at most the
/// runtime (`Documentation/scheduler/sched-rt-group.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    /// `None` for no limit.
    pub(super) runtime: Option<Nanos>,
    pub(super) period: Nanos,
    /// Whether the limit is assumed because it could not be read.
    pub(super) assumed: bool,
}

impl Throttle {
    /// The kernel's default.
    const USUAL: Self = Self {
        runtime: Some(Nanos::from_millis(950)),
        period: Nanos::from_secs(1),
        assumed: true,
    };

    pub(super) fn from_kernel(kernel: &KernelFacts) -> Self {
        let read = |micros: Option<&i64>| micros.copied();
        let (Some(runtime), Some(period)) = (
            read(kernel.rt_runtime_us.get()),
            read(kernel.rt_period_us.get()),
        ) else {
            return Self::USUAL;
        };
        let micros = |value: i64| Nanos::from_micros(value.max(0).cast_unsigned());
        Self {
            // -1 means no limit.
            runtime: (runtime >= 0).then(|| micros(runtime)),
            period: micros(period),
            assumed: false,
        }
    }
}

/// The thread spins for `width` at the start of each `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Duty {
    pub(super) window: Nanos,
    pub(super) width: Nanos,
}

/// The longest spin without a pause. If all CPUs spin at real-time priority, nothing else runs in
/// this time, not even the thread that handles Ctrl-C. With more windows, just as much time can be
/// covered.
pub(super) const LONGEST_WIDTH: Nanos = Nanos::from_millis(100);

impl Duty {
    /// The default width is half of the window. User-space threads must pause for at least a tenth
    /// of the window. The kernel's detector (`kernel_only`) adds a pause itself, so its width may
    /// be the whole window.
    ///
    /// # Errors
    /// If the width leaves no pause, or is longer than its window.
    pub(super) fn new(
        window: Nanos,
        width: Option<Nanos>,
        kernel_only: bool,
    ) -> Result<Self, ProbeError> {
        let width = width.unwrap_or(Nanos(window.0 / 2).min(LONGEST_WIDTH));
        let (most, why) = if kernel_only {
            (window, "is longer than its window")
        } else {
            // All other tasks of the CPU run during the pause.
            (
                Nanos(window.0 / 10 * 9),
                "leaves no CPU time for other tasks",
            )
        };
        if width > most {
            return Err(ProbeError::Unfit(format!(
                "a width of {width} in a window of {window} {why}: use --width {most} or less"
            )));
        }
        Ok(Self { window, width })
    }

    /// Returns the longest total spin time in any time span of length `period`, no matter when it
    /// begins.
    pub(super) fn most_in(self, period: Nanos) -> Nanos {
        let whole = period.0 / self.window.0;
        let rest = period.0 % self.window.0;
        Nanos((whole * self.width.0).saturating_add(rest.min(self.width.0)))
    }

    /// Checks that the real-time throttle would not interfere.
    ///
    /// # Errors
    /// Returns an error with the numbers if it would.
    pub(super) fn check(self, throttle: Throttle) -> Result<(), ProbeError> {
        let Some(runtime) = throttle.runtime else {
            return Ok(());
        };
        let most = self.most_in(throttle.period);
        if most < runtime {
            return Ok(());
        }
        let whence = if throttle.assumed {
            " (assumed: /proc/sys/kernel/sched_rt_runtime_us cannot be read)"
        } else {
            ""
        };
        Err(ProbeError::Unfit(format!(
            "spinning {} of every {} uses up to {most} of each {}, but the kernel throttles \
             real-time threads after {runtime}{whence}: throttling would appear as a gap that \
             hardware did not cause. Use a smaller --width, or --policy other",
            self.width, self.window, throttle.period
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn duty(window: u64, width: u64) -> Duty {
        Duty {
            window: MS(window),
            width: MS(width),
        }
    }

    #[test]
    fn half_of_the_window_is_usual() {
        let ours = |window, width| Duty::new(MS(window), width, false);
        assert_eq!(ours(100, None).unwrap(), duty(100, 50));
        assert_eq!(ours(5_000, None).unwrap(), duty(5_000, 100));
        let error = ours(100, Some(MS(95))).unwrap_err().to_string();
        assert!(error.contains("--width 90.0 ms or less"), "{error}");
    }

    #[test]
    fn kernel_detector_may_use_whole_window() {
        let kernel = |window, width| Duty::new(MS(window), Some(MS(width)), true);
        assert_eq!(kernel(1_000, 950).unwrap(), duty(1_000, 950));
        assert_eq!(kernel(1_000, 1_000).unwrap(), duty(1_000, 1_000));
        let error = kernel(1_000, 1_001).unwrap_err().to_string();
        assert!(error.contains("--width 1.00 s or less"), "{error}");
    }

    #[test]
    fn the_throttle_is_told_in_numbers() {
        duty(100, 90).check(Throttle::USUAL).unwrap();
        let tight = Throttle {
            runtime: Some(MS(40)),
            period: MS(100),
            assumed: false,
        };
        duty(100, 39).check(tight).unwrap();
        let error = duty(100, 50).check(tight).unwrap_err();
        assert!(error.is_usage());
        let text = error.to_string();
        assert!(
            text.contains("50.0 ms") && text.contains("40.0 ms"),
            "{text}"
        );
        let none = Throttle {
            runtime: None,
            ..tight
        };
        duty(100, 90).check(none).unwrap();
    }

    #[test]
    fn a_long_spin_fills_a_short_period() {
        // The spin takes only a tenth of the time, but fills one whole period.
        let short = Throttle {
            runtime: Some(MS(9)),
            period: MS(10),
            assumed: false,
        };
        assert!(duty(1_000, 100).check(short).is_err());
    }

    proptest! {
        #[test]
        fn no_period_holds_more_than_the_most(
            window in 1_u64..500, width in 1_u64..500, period in 1_u64..2_000, begin in 0_u64..500,
        ) {
            let width = width.min(window);
            let duty = duty(window, width);
            let spun = (begin..begin + period).filter(|ms| ms % window < width).count() as u64;
            prop_assert!(MS(spun) <= duty.most_in(MS(period)));
        }
    }
}
