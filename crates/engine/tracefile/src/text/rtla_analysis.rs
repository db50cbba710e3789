//! Reads the automatic analysis that rtla timerlat prints when it stops
//! (`timerlat_thread_analysis` in tools/tracing/rtla/src/timerlat_aa.c).

use punctual_model::{LatencyOf, Nanos, PartKind, StatedPart, Text, TracerStatement};

/// Maximum number of parts, and of functions in the stack.
const MOST: usize = 1_024;

/// The beginnings of the lines that state a part of the latency.
const PARTS: [(&str, PartKind); 7] = [
    ("IRQ handler delay", PartKind::IrqDelay),
    ("Timerlat IRQ duration", PartKind::TimerIrq),
    ("Blocking thread", PartKind::BlockingThread),
    ("NMI interference", PartKind::Nmi),
    ("IRQ interference", PartKind::Irq),
    ("Softirq interference", PartKind::Softirq),
    ("Thread interference", PartKind::Thread),
];

/// An analysis that is being read.
#[derive(Debug)]
pub(super) struct Analysis {
    cpu: u32,
    parts: Vec<StatedPart>,
    /// Kind of the threads or handlers that the following lines list.
    listed: Option<PartKind>,
    in_stack: bool,
    stack: Vec<Text>,
    /// Length and kind of the whole latency.
    total: Option<(LatencyOf, Nanos)>,
}

impl Analysis {
    /// Begins with `## CPU 1 hit stop tracing, analyzing it ##`.
    pub(super) fn begin(line: &str) -> Option<Self> {
        let rest = line
            .trim_start_matches('#')
            .trim_start()
            .strip_prefix("CPU ")?;
        let (cpu, rest) = rest.split_once(' ')?;
        rest.starts_with("hit stop tracing, analyzing it")
            .then_some(())?;
        Some(Self {
            cpu: cpu.parse().ok()?,
            parts: Vec::new(),
            listed: None,
            in_stack: false,
            stack: Vec::new(),
            total: None,
        })
    }

    /// Applies a line. Returns whether it belongs to the analysis.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let line = line.trim();
        if self.total.is_some() {
            return false;
        }
        if line == "Blocking thread stack trace" {
            self.in_stack = true;
            return true;
        }
        if let Some(function) = line.strip_prefix("-> ") {
            if self.in_stack && self.stack.len() < MOST {
                let function = function.split_whitespace().next().unwrap_or_default();
                self.stack.push(function.into());
            }
            return self.in_stack;
        }
        if !line.is_empty() && line.bytes().all(|byte| byte == b'-') {
            return true;
        }
        let whole = [
            ("IRQ latency", LatencyOf::TimerIrq),
            ("Thread latency", LatencyOf::TimerThread),
        ];
        for (name, of) in whole {
            if let Some(rest) = line.strip_prefix(name) {
                // Without `(100%)`, the line states the latency of the interrupt in that of the thread.
                if rest.contains("(100%)") || rest.contains("(100.00 %)") {
                    self.total = micros(rest).map(|ns| (of, ns));
                }
                return micros(rest).is_some();
            }
        }
        if line.starts_with("Previous IRQ interference") {
            return true;
        }
        for (name, kind) in PARTS {
            if let Some(rest) = line.strip_prefix(name) {
                return self.part(kind, rest);
            }
        }
        self.member(line)
    }

    fn part(&mut self, kind: PartKind, rest: &str) -> bool {
        let idle = kind == PartKind::IrqDelay && rest.contains("exit from idle");
        let kind = if idle { PartKind::IdleExit } else { kind };
        let lists = matches!(
            kind,
            PartKind::BlockingThread | PartKind::Irq | PartKind::Softirq | PartKind::Thread
        );
        self.listed = lists.then_some(kind);
        if !lists {
            self.push(kind, "", None, micros(rest));
        }
        true
    }

    /// Parses `local_timer:236    11.49 us`.
    fn member(&mut self, line: &str) -> bool {
        let Some(kind) = self.listed else {
            return false;
        };
        let name = line.strip_suffix("us").map_or(line, |before| {
            before
                .trim_end()
                .rsplit_once([' ', '\t'])
                .map_or("", |(name, _)| name)
        });
        let Some((name, number)) = name.trim().rsplit_once(':') else {
            return false;
        };
        let Ok(number) = number.trim().parse() else {
            return false;
        };
        self.push(kind, name.trim(), Some(number), micros(line));
        true
    }

    fn push(&mut self, kind: PartKind, name: &str, number: Option<u32>, ns: Option<Nanos>) {
        if self.parts.len() < MOST {
            self.parts.push(StatedPart {
                kind,
                name: name.into(),
                number,
                ns,
            });
        }
    }

    /// Completes the statement. `None` if the latency is missing.
    pub(super) fn finish(self) -> Option<TracerStatement> {
        let (latency_of, latency) = self.total?;
        Some(TracerStatement {
            latency_of,
            tracer: "rtla timerlat".into(),
            latency,
            begin: Nanos::ZERO,
            cpu: self.cpu,
            thread: None,
            ends: None,
            calls: Vec::new(),
            stacks: Some(self.stack)
                .filter(|stack| !stack.is_empty())
                .into_iter()
                .collect(),
            parts: self.parts,
        })
    }
}

/// Returns the number before the last ` us` of a line.
fn micros(line: &str) -> Option<Nanos> {
    let (before, _) = line.rsplit_once(" us")?;
    let number = before.trim_end().rsplit([' ', '\t', ':']).next()?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = part.parse::<u64>().unwrap_or(0) * 10_u64.pow(3 - part.len() as u32);
    let whole = whole.parse::<u64>().ok()?.checked_mul(1_000)?;
    Some(Nanos(whole.checked_add(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analysis_of_a_late_thread_is_read() {
        let mut analysis = Analysis::begin("## CPU 12 hit stop tracing, analyzing it ##").unwrap();
        for line in [
            "  IRQ handler delay:                                         8.58 us (4.07 %)",
            "  IRQ latency:                                               9.61 us",
            "  Timerlat IRQ duration:                                     4.14 us (1.96 %)",
            "  Blocking thread:                                         101.31 us (47.98 %)",
            "                      kworker/u8:2:49256                   101.31 us",
            "    Blocking thread stack trace",
            "                -> timerlat_irq",
            "                -> asm_sysvec_apic_timer_interrupt",
            "                -> tlb_finish_mmu",
            "  IRQ interference                                          11.49 us (5.44 %)",
            "                     local_timer:236                        11.49 us",
            "------------------------------------------------------------------------",
            "  Thread latency:                                          211.15 us (100%)",
        ] {
            assert!(analysis.line(line), "{line}");
        }
        assert!(!analysis.line("Max timerlat IRQ latency from idle: 17.48 us in cpu 0"));
        let statement = analysis.finish().unwrap();
        assert_eq!(statement.latency_of, LatencyOf::TimerThread);
        assert_eq!((statement.cpu, statement.latency), (12, Nanos(211_150)));
        let parts: Vec<_> = (statement.parts.iter())
            .map(|part| (part.kind, &*part.name.0, part.number, part.ns))
            .collect();
        let ns = |ns| Some(Nanos(ns));
        assert_eq!(
            parts,
            [
                (PartKind::IrqDelay, "", None, ns(8_580)),
                (PartKind::TimerIrq, "", None, ns(4_140)),
                (
                    PartKind::BlockingThread,
                    "kworker/u8:2",
                    Some(49_256),
                    ns(101_310)
                ),
                (PartKind::Irq, "local_timer", Some(236), ns(11_490)),
            ]
        );
        assert_eq!(statement.stacks[0].len(), 3);
        assert!(Analysis::begin("## CPU 12 ##").is_none());
    }
}
