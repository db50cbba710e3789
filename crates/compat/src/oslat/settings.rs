//! The settings of oslat from its command line.

use punctual_host::Host;
use punctual_model::CpuSet;

use crate::{CompatError, Given, Parsed, shared};

/// The settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OslatSettings {
    pub(super) buckets: usize,
    /// Width of a bucket, in ns.
    pub(super) width_ns: u64,
    pub(super) bias: bool,
    /// The bias is that of the first CPU.
    pub(super) single: bool,
    pub(super) cpus: CpuSet,
    /// As it was given.
    pub(super) cpu_list: Option<String>,
    pub(super) main_cpu: Option<u32>,
    pub(super) duration_s: u64,
    pub(super) json: Option<String>,
    pub(super) priority: u8,
    pub(super) copies: bool,
    pub(super) memory: u64,
    pub(super) quiet: bool,
    pub(super) threshold_us: u64,
    pub(super) omits_zeroes: bool,
}

impl OslatSettings {
    /// Reads the options in the order they were given.
    ///
    /// # Errors
    /// Invalid values.
    pub(super) fn read(parsed: &Parsed, host: &Host) -> Result<Self, CompatError> {
        let (_, allowed) = shared::cpus_of(host)?;
        let mut settings = Self {
            buckets: 0,
            width_ns: 1_000,
            bias: false,
            single: false,
            cpus: allowed,
            cpu_list: None,
            main_cpu: None,
            duration_s: 1,
            json: None,
            priority: 0,
            copies: false,
            memory: 16 << 10,
            quiet: false,
            threshold_us: 0,
            omits_zeroes: false,
        };
        for given in &parsed.given {
            settings.take(given, host)?;
        }
        if settings.buckets == 0 {
            // As many as cover the same length if they are narrow.
            settings.buckets = match settings.precise() && settings.width_ns < 1_000 {
                true => (32_000 / settings.width_ns) as usize,
                false => 32,
            };
        }
        Ok(settings)
    }

    /// Whether figures are shown in ns.
    pub(super) fn precise(&self) -> bool {
        !self.width_ns.is_multiple_of(1_000)
    }

    fn take(&mut self, given: &Given, host: &Host) -> Result<(), CompatError> {
        match given.option.long {
            "bucket-size" => {
                self.buckets = match given.whole()? {
                    buckets @ 5..=1_024 => buckets as usize,
                    _ => return Err(given.bad("a number of buckets from 5 to 1024")),
                }
            }
            "bucket-width" => self.width_ns = given.at_least(1)?,
            "bias" => self.bias = true,
            "single-preheat" => self.single = true,
            "cpu-list" => {
                self.cpus = shared::cpus(given, given.text(), host)?;
                self.cpu_list = Some(given.text().to_owned());
            }
            "cpu-main-thread" => self.main_cpu = Some(main_cpu(given, host)?),
            "duration" => {
                self.duration_s = match given.duration()? {
                    0 => return Err(given.bad("a time above 0")),
                    seconds => seconds,
                }
            }
            "json" => self.json = Some(given.text().to_owned()),
            "rtprio" => {
                self.priority = match given.priority()? {
                    0 => return Err(given.bad("a priority from 1 to 99")),
                    priority => priority,
                }
            }
            "workload-mem" => self.memory = memory(given)?,
            "workload" => {
                self.copies = match given.text() {
                    "no" => false,
                    "memmove" => true,
                    _ => return Err(given.bad("a workload: no or memmove")),
                }
            }
            "quiet" => self.quiet = true,
            "trace-threshold" => self.threshold_us = given.micros_from(1)?,
            "zero-omit" => self.omits_zeroes = true,
            _ => {}
        }
        Ok(())
    }
}

fn main_cpu(given: &Given, host: &Host) -> Result<u32, CompatError> {
    let (present, _) = shared::cpus_of(host)?;
    let cpu = u32::try_from(given.whole()?).ok();
    cpu.filter(|cpu| present.contains(*cpu))
        .ok_or_else(|| given.bad(&format!("an existing CPU (present: {present})")))
}

/// `4K`, `1M`, `2G`, or bytes; what the probe can copy.
fn memory(given: &Given) -> Result<u64, CompatError> {
    let text = given.text();
    let (number, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << unit));
    bytes
        .filter(|bytes| (1..=1 << 26).contains(bytes))
        .ok_or_else(|| given.bad("a size up to 64M: 4096, 16K, 1M"))
}
