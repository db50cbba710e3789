//! The summary of oslat, as values and as text.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use punctual_model::Recording;

use super::settings::OslatSettings;
use crate::shared::rows;

/// Figures of the thread on one CPU, with times in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Core {
    pub(super) cpu: u64,
    pub(super) mhz: u64,
    /// Number of iterations in each bucket. Iterations that are too long are counted in the last
    /// bucket.
    pub(super) buckets: Vec<u64>,
    pub(super) min: u64,
    pub(super) max: u64,
    /// Mean in µs. As in the original, it is computed from the upper ends of the buckets.
    pub(super) average: f64,
    pub(super) spun_s: f64,
}

/// Figures of all CPUs, and the bias that is subtracted from each bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) cores: Vec<Core>,
    pub(super) bias_ns: u64,
}

impl Summary {
    /// Returns the summary of a recording of the hardware probe. The recording must contain all
    /// iterations.
    pub(super) fn new(recording: &Recording, settings: &OslatSettings) -> Self {
        let mut lengths: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for [cpu, from, turns] in rows(recording, "turn_lengths", ["cpu", "from_ns", "turns"]) {
            lengths.entry(cpu).or_default().push((from, turns));
        }
        let spun: BTreeMap<u64, u64> = rows(recording, "spinning", ["cpu", "spun_ns"])
            .map(|[cpu, spun]| (cpu, spun))
            .collect();
        let keys = ["cpu", "min_ns", "max_ns", "clock_mhz"];
        let figures: Vec<[u64; 4]> = rows(recording, "turns", keys).collect();
        let least = figures.iter().map(|[_, min, ..]| *min);
        let bias_ns = match (settings.bias, settings.single) {
            (false, _) => 0,
            (true, true) => figures.first().map_or(0, |[_, min, ..]| *min),
            (true, false) => least.min().unwrap_or(0),
        };
        // The bias is a whole number of units, as in the original.
        let unit = if settings.precise() { 1 } else { 1_000 };
        let bias_ns = bias_ns / unit * unit;
        let core = |&[cpu, min, max, mhz]: &[u64; 4]| {
            let spun_ns = spun.get(&cpu).copied().unwrap_or(0);
            let mut core = Core {
                cpu,
                mhz,
                min: min / unit * unit,
                max: max / unit * unit,
                spun_s: spun_ns as f64 / 1e9,
                ..Core::default()
            };
            core.fill(
                lengths.get(&cpu).map_or(&[], Vec::as_slice),
                bias_ns,
                settings,
            );
            core
        };
        Self {
            cores: figures.iter().map(core).collect(),
            bias_ns,
        }
    }
}

impl Core {
    fn fill(&mut self, lengths: &[(u64, u64)], bias: u64, settings: &OslatSettings) {
        let (width, last) = (settings.width_ns, settings.buckets - 1);
        self.buckets = vec![0; settings.buckets];
        let (mut sum, mut count) = (0.0, 0);
        for &(from, turns) in lengths {
            let place = from.saturating_sub(bias) / width;
            self.buckets[(place as usize).min(last)] += turns;
            // Iterations that are too long for the last bucket contribute their full length to the
            // mean.
            sum += turns as f64 * upper(place as usize, bias, width) / 1_000.0;
            count += turns;
        }
        self.average = if count > 0 { sum / count as f64 } else { 0.0 };
    }
}

/// Returns the upper end of a bucket, in ns.
fn upper(place: usize, bias: u64, width: u64) -> f64 {
    bias as f64 + (place as f64 + 1.0) * width as f64
}

/// Returns the name of a bucket: its upper end in µs.
pub(super) fn bucket(place: usize, bias: u64, settings: &OslatSettings) -> String {
    let micros = upper(place, bias, settings.width_ns) / 1_000.0;
    if settings.precise() {
        format!("{micros:.3}")
    } else {
        format!("{micros:.0}")
    }
}

/// Returns the text before the run.
pub(super) fn head(settings: &OslatSettings) -> String {
    let priority = match settings.priority {
        0 => "default".to_owned(),
        priority => format!("SCHED_FIFO:{priority}"),
    };
    let (workload, memory) = if settings.copies {
        ("memmove", settings.memory >> 10)
    } else {
        ("no", 0)
    };
    let cores = if settings.single {
        1
    } else {
        settings.cpus.len()
    };
    format!(
        "Total runtime: \t\t{} seconds\n\
         Thread priority: \t{priority}\n\
         CPU list: \t\t{}\n\
         CPU for main thread: \t{}\n\
         Workload: \t\t{workload}\n\
         Workload mem: \t\t{memory} (KiB)\n\
         Preheat cores: \t\t{cores}\n\n\
         Pre-heat for 1 seconds...\n\
         Test starts...\n",
        settings.common.duration_s,
        settings.cpu_list.as_deref().unwrap_or("all"),
        settings.main_cpu.unwrap_or(0),
    )
}

impl Summary {
    /// Returns the summary as text in the format of the original.
    pub(super) fn text(&self, settings: &OslatSettings) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, settings);
        text
    }

    fn field(
        &self,
        text: &mut String,
        name: &str,
        end: &str,
        value: impl Fn(&Core) -> String,
    ) -> fmt::Result {
        write!(text, "{name:>12}:\t")?;
        for core in &self.cores {
            write!(text, " {}", value(core))?;
        }
        writeln!(text, "{end}")
    }

    fn write(&self, text: &mut String, settings: &OslatSettings) -> fmt::Result {
        let micros = |nanos: u64| {
            if settings.precise() {
                format!("{:.3}", nanos as f64 / 1_000.0)
            } else {
                (nanos / 1_000).to_string()
            }
        };
        if settings.bias {
            writeln!(text, "Global bias set to {} (us)", micros(self.bias_ns))?;
        }
        self.field(text, "Core", "", |core| core.cpu.to_string())?;
        self.field(text, "Counter Freq", " (Mhz)", |core| core.mhz.to_string())?;
        let mut left_out = false;
        for place in 0..settings.buckets {
            let is_last = place + 1 == settings.buckets;
            let empty = self.cores.iter().all(|core| core.buckets[place] == 0);
            if settings.omits_zeroes && empty && !is_last {
                left_out = true;
                continue;
            }
            if std::mem::take(&mut left_out) {
                writeln!(text, "    ...")?;
            }
            let name = format!("{:0>3} (us)", bucket(place, self.bias_ns, settings));
            let end = if is_last {
                " (including overflows)"
            } else {
                ""
            };
            self.field(text, &name, end, |core| core.buckets[place].to_string())?;
        }
        self.field(text, "Minimum", " (us)", |core| micros(core.min))?;
        self.field(text, "Average", " (us)", |core| {
            format!("{:.3}", core.average)
        })?;
        self.field(text, "Maximum", " (us)", |core| micros(core.max))?;
        self.field(text, "Max-Min", " (us)", |core| micros(core.max - core.min))?;
        self.field(text, "Duration", " (sec)", |core| {
            format!("{:.3}", core.spun_s)
        })?;
        writeln!(text)
    }
}
