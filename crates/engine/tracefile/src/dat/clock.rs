//! Converts times of the ring buffer to nanoseconds.

use punctual_model::Nanos;

use super::parser::Parser;
use crate::TraceFileError;

/// Calibration of the time-stamp counter: ns = cycles * multiplier >> shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tsc {
    multiplier: u32,
    shift: u32,
}

impl Tsc {
    /// Reads the option TSC2NSEC. Returns `None` if its values are not a valid calibration.
    pub(super) fn read(parser: &mut Parser<'_>) -> Result<Option<Self>, TraceFileError> {
        let (multiplier, shift) = (parser.u32()?, parser.u32()?);
        Ok((multiplier != 0 && shift < 64).then_some(Self { multiplier, shift }))
    }

    /// Returns the multiplier and the shift.
    pub(super) const fn calibration(self) -> (u32, u32) {
        (self.multiplier, self.shift)
    }

    fn nanos(self, cycles: u64) -> u64 {
        let wide = (u128::from(cycles) * u128::from(self.multiplier)) >> self.shift;
        wide as u64
    }
}

/// A measured difference between the clocks of a virtual machine (the guest) and its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    /// Time of the measurement, on the clock of the guest.
    time: u64,
    offset: i64,
    scaling: u64,
    fraction: u64,
}

/// The differences between the clocks of a guest and its host, for each CPU of the guest (the
/// option TIME_SHIFT). Empty if the file was not recorded in a guest.
#[derive(Clone, Debug, Default)]
pub(super) struct Shift {
    /// ID of the host's trace.
    peer: Option<u64>,
    interpolates: bool,
    cpus: Vec<Vec<Sample>>,
}

/// Flag that means that offsets are interpolated between two samples.
const INTERPOLATE: u32 = 1;

impl Shift {
    /// Reads the option TIME_SHIFT.
    pub(super) fn read(parser: &mut Parser<'_>) -> Result<Self, TraceFileError> {
        let peer = Some(parser.u64()?);
        let interpolates = parser.u32()? & INTERPOLATE != 0;
        let mut cpus = Vec::new();
        for _ in 0..parser.u32()? {
            let count = parser.u32()?;
            let mut samples = Vec::new();
            for _ in 0..count {
                samples.push(Sample {
                    time: parser.u64()?,
                    ..Sample::default()
                });
            }
            for sample in &mut samples {
                sample.offset = parser.u64()? as i64;
            }
            for sample in &mut samples {
                sample.scaling = parser.u64()?;
            }
            cpus.push(samples);
        }
        // Older files do not contain fractions.
        'fractions: for samples in &mut cpus {
            for sample in samples {
                match parser.u64() {
                    Ok(fraction) => sample.fraction = fraction,
                    Err(_) => break 'fractions,
                }
            }
        }
        for samples in &mut cpus {
            samples.sort_by_key(|sample| sample.time);
            samples.dedup_by_key(|sample| sample.time);
        }
        Ok(Self {
            peer,
            interpolates,
            cpus,
        })
    }

    /// Returns the ID of the host's trace.
    pub(super) const fn peer(&self) -> Option<u64> {
        self.peer
    }

    /// Returns the CPUs of the guest with at least one measurement.
    pub(super) fn measured(&self) -> impl Iterator<Item = u32> {
        let cpus = (0..).zip(&self.cpus);
        cpus.filter(|(_, samples)| !samples.is_empty())
            .map(|(cpu, _)| cpu)
    }

    const fn is_none(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Converts a time on a CPU of the guest to the clock of the host, as `trace-cmd report` does.
    fn host(&self, cpu: u32, time: u64) -> u64 {
        let samples = self.cpus.get(cpu as usize).map_or(&[][..], Vec::as_slice);
        let (first, second) = match samples {
            [] => return time,
            [only] => return time.wrapping_add_signed(only.offset),
            samples => {
                let after = samples.partition_point(|sample| sample.time <= time);
                let first = after.saturating_sub(1).min(samples.len() - 2);
                match samples.get(first..first + 2) {
                    Some([first, second]) => (first, second),
                    _ => return time,
                }
            }
        };
        let mut offset = i128::from(first.offset);
        if self.interpolates {
            let span = i128::from(second.time) - i128::from(first.time);
            let passed = i128::from(time) - i128::from(first.time);
            let change = i128::from(second.offset) - i128::from(first.offset);
            offset += (passed * change + span / 2) / span.max(1);
        }
        let scaled = match (first.scaling, u32::try_from(first.fraction)) {
            (0, _) => time,
            (scaling, Ok(fraction @ 0..64)) => {
                ((u128::from(time) * u128::from(scaling)) >> fraction) as u64
            }
            _ => time,
        };
        scaled.wrapping_add(offset as u64)
    }
}

/// Conversion from times in the ring buffer to the clock of the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    pub(super) tsc: Option<Tsc>,
    pub(super) shift: Shift,
    pub(super) offset_ns: i64,
}

impl Clock {
    #[inline]
    pub(super) fn nanos(&self, cpu: u32, raw: u64) -> Nanos {
        let raw = if self.shift.is_none() {
            raw
        } else {
            self.shift.host(cpu, raw)
        };
        let nanos = self.tsc.map_or(raw, |tsc| tsc.nanos(raw));
        Nanos(nanos.wrapping_add_signed(self.offset_ns))
    }
}

/// Returns whether the clocks of different CPUs may differ, or `None` if the clock is unknown.
/// Returns an error if the clock does not count nanoseconds.
pub(crate) fn differs(clock: &str, is_calibrated: bool) -> Result<Option<bool>, TraceFileError> {
    match clock {
        // These clocks are based on sched_clock(), which the kernel does not always synchronise
        // between CPUs.
        "local" | "perf" => Ok(Some(true)),
        "global" | "mono" | "mono_raw" | "boot" | "tai" | "tsc2nsec" | "uptime" => Ok(Some(false)),
        // Linux uses the time-stamp counter as a clock only if it agrees between all CPUs.
        "x86-tsc" if is_calibrated => Ok(Some(false)),
        "counter" | "x86-tsc" | "ppc-tb" | "s390-tod" => Err(TraceFileError::NoTime {
            clock: clock.to_owned(),
        }),
        _ => Ok(None),
    }
}

/// Returns the resolution of the times that a clock shows.
pub(super) fn resolution(clock: Option<&str>) -> Nanos {
    match clock {
        // This clock counts ticks. There are at least 100 ticks per second.
        Some("uptime") => Nanos(10_000_000),
        _ => Nanos(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_converted_without_overflow() {
        let tsc = Tsc {
            multiplier: 5_368_709,
            shift: 24,
        };
        // One nanosecond is 3.125 cycles.
        assert_eq!(tsc.nanos(3_125_000), 999_999);
        assert_eq!(
            tsc.nanos(1 << 63),
            (((1_u128 << 63) * 5_368_709) >> 24) as u64
        );
    }

    #[test]
    fn guest_times_are_host_times() {
        let sample = |time, offset| Sample {
            time,
            offset,
            scaling: 1,
            fraction: 0,
        };
        let mut shift = Shift {
            peer: Some(77),
            interpolates: true,
            cpus: vec![vec![
                sample(100, 1_000),
                sample(200, 1_010),
                sample(300, 1_000),
            ]],
        };
        assert_eq!(shift.host(0, 150), 150 + 1_005);
        assert_eq!(shift.host(0, 250), 250 + 1_006);
        assert_eq!(shift.host(0, 50), 50 + 996);
        assert_eq!(shift.host(1, 50), 50, "a CPU without a sample");
        shift.interpolates = false;
        assert_eq!(shift.host(0, 250), 250 + 1_010);
        shift.cpus[0].truncate(1);
        assert_eq!(shift.host(0, 250), 250 + 1_000);
    }
}
