//! The figures of timerlat, counted from the samples, and their two forms: a histogram, and the
//! table of `top`.

use std::fmt::Write;

use punctual_model::{Nanos, Recording, Sample};

use super::settings::{Rows, RtlaSettings};

/// The latency in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Context {
    /// The interrupt handler of the timer.
    Irq,
    /// The woken thread, in the kernel.
    Thread,
    /// The thread in user space.
    User,
}

impl Context {
    /// Returns the context of a thread of the recording. The probe's own threads read the clock in
    /// user space.
    fn of(label: Option<&str>) -> Self {
        match label.and_then(|label| label.rsplit_once(", ")) {
            Some((_, "interrupt")) => Self::Irq,
            Some((_, "thread")) => Self::Thread,
            _ => Self::User,
        }
    }
}

/// Figures of one context on one CPU, in the unit of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    count: u64,
    last: u64,
    min: u64,
    sum: u64,
    max: u64,
    /// Samples of each row, and in the last place those beyond the rows.
    rows: Vec<u64>,
}

impl Figures {
    fn add(&mut self, value: u64, width: u64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.count += 1;
        self.last = value;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
        let beyond = self.rows.len().saturating_sub(1);
        let place = usize::try_from(value / width).unwrap_or(beyond).min(beyond);
        if let Some(row) = self.rows.get_mut(place) {
            *row += 1;
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns a figure, or `None` without samples.
    fn known(&self, figure: u64) -> Option<u64> {
        (self.count > 0).then_some(figure)
    }

    fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// The figures of all CPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The CPU, the context and the figures of each thread of the recording.
    columns: Vec<(u32, Context, Figures)>,
    /// One unit of the output in ns.
    unit: u64,
    form: Option<Rows>,
    /// Whether user space is measured.
    has_user: bool,
}

const DASH: &str = "-";

/// Formats a figure with the width of a column.
fn cell(figure: Option<u64>) -> String {
    match figure {
        Some(figure) => format!("{figure:9}"),
        None => format!("{DASH:>9}"),
    }
}

/// Formats a length as days, hours, minutes and seconds.
pub(super) fn duration(length: Nanos) -> String {
    let seconds = length.0 / 1_000_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    format!(
        "{days:3} {:02}:{:02}:{:02}",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

impl Table {
    /// Creates the table. Its rows are counted only for a histogram.
    pub(super) fn new(settings: &RtlaSettings, histogram: bool) -> Self {
        Self {
            columns: Vec::new(),
            unit: if settings.nanos { 1 } else { 1_000 },
            form: histogram.then(|| settings.rows.clone()),
            has_user: false,
        }
    }

    /// Creates the columns from the threads of a recording that begins.
    pub(super) fn begin(&mut self, recording: &Recording) {
        let rows = self.form.as_ref().map_or(0, |form| form.entries + 1);
        let column = |thread: &punctual_model::ThreadRecord| {
            let figures = Figures {
                rows: vec![0; rows],
                ..Figures::default()
            };
            let context = Context::of(thread.label.as_deref());
            (thread.cpu.unwrap_or(0), context, figures)
        };
        self.columns = recording.threads.iter().map(column).collect();
        self.has_user = (self.columns.iter()).any(|(_, context, _)| *context == Context::User);
    }

    /// Returns the CPU and context of a thread.
    pub(super) fn of(&self, thread: u32) -> Option<(u32, Context)> {
        let (cpu, context, _) = self.columns.get(thread as usize)?;
        Some((*cpu, *context))
    }

    /// Adds the samples of a thread. A sample before its due time counts as 0.
    pub(super) fn add(&mut self, thread: u32, samples: &[Sample]) {
        let width = self.form.as_ref().map_or(1, |form| form.width);
        if let Some((_, _, figures)) = self.columns.get_mut(thread as usize) {
            for sample in samples {
                let late = sample.latency.non_negative().unwrap_or_default();
                figures.add(late.0 / self.unit, width);
            }
        }
    }

    /// Returns the largest latency, in us.
    pub(super) fn max_us(&self) -> u64 {
        let all = self.columns.iter().map(|(_, _, figures)| figures.max);
        all.max().unwrap_or(0) * self.unit / 1_000
    }

    fn unit_name(&self) -> (&'static str, &'static str) {
        if self.unit == 1 {
            ("nanoseconds", "ns")
        } else {
            ("microseconds", "us")
        }
    }

    /// Returns the CPUs that have samples, in order.
    fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = (self.columns.iter())
            .filter(|(_, _, figures)| figures.count > 0)
            .map(|(cpu, ..)| *cpu)
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Returns the figures of a context; empty figures if it is not measured.
    fn figures(&self, cpu: u32, wanted: Context) -> Figures {
        let mut own = self.columns.iter();
        let found = own.find(|(of, context, _)| (*of, *context) == (cpu, wanted));
        found.map_or_else(Figures::default, |(_, _, figures)| figures.clone())
    }

    /// Returns the figures of all CPUs together.
    fn all(&self, wanted: Context) -> Figures {
        let mut sum = Figures::default();
        for (_, context, figures) in &self.columns {
            if *context == wanted {
                sum.merge(figures);
            }
        }
        sum
    }

    /// Returns the histogram.
    pub(super) fn histogram(&self, length: Nanos) -> String {
        let mut text = String::new();
        let Some(form) = &self.form else {
            return text;
        };
        let contexts = [
            (Context::Irq, "IRQ", !form.no_irq),
            (Context::Thread, "Thr", !form.no_thread),
            (Context::User, "Usr", self.has_user),
        ];
        let contexts: Vec<_> = contexts
            .into_iter()
            .filter(|(_, _, shown)| *shown)
            .collect();
        let mut columns = Vec::new();
        for cpu in self.cpus() {
            for (context, name, _) in &contexts {
                columns.push((format!("{name}-{cpu:03}"), self.figures(cpu, *context)));
            }
        }
        let title = |name: &str| {
            if form.no_index {
                String::new()
            } else {
                name.to_owned()
            }
        };
        if !form.no_header {
            let (unit, short) = self.unit_name();
            let _ = write!(
                text,
                "# RTLA timerlat histogram\n# Time unit is {unit} ({short})\n# Duration: {}\n{}",
                duration(length),
                title("Index")
            );
            for (name, _) in &columns {
                let _ = write!(text, "   {name}");
            }
            text.push('\n');
        }
        let columns: Vec<Figures> = columns.into_iter().map(|(_, figures)| figures).collect();
        let row = |figures: &Figures, place: usize| figures.rows.get(place).copied().unwrap_or(0);
        for place in 0..form.entries {
            let is_empty = columns.iter().all(|figures| row(figures, place) == 0);
            if is_empty && !form.with_zeros {
                continue;
            }
            text.push_str(&title(&format!("{:<6}", place as u64 * form.width)));
            line(&mut text, "", columns.iter().map(|f| Some(row(f, place))));
        }
        let over = columns
            .iter()
            .map(|figures| Some(row(figures, form.entries)));
        line(&mut text, &title("over: "), over);
        if form.no_summary {
            return text;
        }
        summary(&mut text, &title, &columns);
        let mut head = title("ALL:  ");
        for (place, (_, name, _)) in contexts.iter().enumerate() {
            let width = if place == 0 { 9 } else { 10 };
            let _ = write!(head, "{name:>width$}");
        }
        let _ = writeln!(text, "{head}");
        let all = contexts.iter().map(|(context, ..)| self.all(*context));
        summary(&mut text, &title, &all.collect::<Vec<_>>());
        text
    }

    /// Returns the table of `top`.
    pub(super) fn top(&self, length: Nanos) -> String {
        let (_, unit) = self.unit_name();
        let mut text = format!("{:37}Timer Latency{:46}", "", "");
        if self.has_user {
            let _ = write!(text, "{:41}", "");
        }
        let _ = write!(
            text,
            "\n{:<6}   |          IRQ Timer Latency ({unit})        |         Thread Timer Latency \
             ({unit})",
            duration(length)
        );
        if self.has_user {
            let _ = write!(text, "      |    Ret user Timer Latency ({unit})");
        }
        let names = "      cur       min       avg       max";
        let _ = write!(text, "\nCPU COUNT      |{names} |{names}");
        if self.has_user {
            let _ = write!(text, " |{names}");
        }
        text.push('\n');
        for cpu in self.cpus() {
            let groups = [Context::Irq, Context::Thread, Context::User];
            let groups = groups.map(|context| self.figures(cpu, context));
            let count = self.count(&groups);
            let _ = write!(text, "{cpu:3} #{count:<9} |");
            self.groups(&mut text, &groups, |figures| {
                let last = figures.known(figures.last);
                format!("{} ", cell(last))
            });
        }
        let groups = [Context::Irq, Context::Thread, Context::User];
        let groups = groups.map(|context| self.all(context));
        let (mut count, mut exponent) = (self.count(&groups), 0);
        if count == 0 {
            return text;
        }
        while count > 999_999 {
            count /= 10;
            exponent += 1;
        }
        let _ = write!(text, "{:-<15}|{:-<40}|{:-<39}", "", "", "");
        if self.has_user {
            let _ = write!(text, "-|{:-<39}", "");
        }
        let _ = write!(text, "\nALL #{count:<6} e{exponent} |");
        self.groups(&mut text, &groups, |figures| match figures.count {
            0 => format!("{DASH:>9} "),
            _ => " ".repeat(10),
        });
        text
    }

    /// Returns the number of timers: of interrupts, or of wake-ups if interrupts are not measured.
    fn count(&self, groups: &[Figures; 3]) -> u64 {
        groups
            .iter()
            .map(|figures| figures.count)
            .find(|count| *count > 0)
            .unwrap_or(0)
    }

    /// Appends the groups of a row of `top`. `first` formats the first figure of a group.
    fn groups(&self, text: &mut String, groups: &[Figures; 3], first: impl Fn(&Figures) -> String) {
        for (place, figures) in groups.iter().enumerate() {
            if place == 2 && !self.has_user {
                break;
            }
            let is_last = place == if self.has_user { 2 } else { 1 };
            let end = if is_last { "" } else { " |" };
            let rest = [
                figures.known(figures.min),
                figures.mean(),
                figures.known(figures.max),
            ];
            let [min, mean, max] = rest.map(cell);
            let _ = write!(text, "{}{min} {mean} {max}{end}", first(figures));
        }
        text.push('\n');
    }
}

/// Appends a line of figures, each with its column's width.
fn line(text: &mut String, title: &str, figures: impl Iterator<Item = Option<u64>>) {
    text.push_str(title);
    for figure in figures {
        let _ = write!(text, "{} ", cell(figure));
    }
    text.push('\n');
}

/// Appends the lines from `count:` to `max:`.
fn summary(text: &mut String, title: &impl Fn(&str) -> String, columns: &[Figures]) {
    line(
        text,
        &title("count:"),
        columns.iter().map(|f| Some(f.count)),
    );
    line(
        text,
        &title("min:  "),
        columns.iter().map(|f| f.known(f.min)),
    );
    line(text, &title("avg:  "), columns.iter().map(Figures::mean));
    line(
        text,
        &title("max:  "),
        columns.iter().map(|f| f.known(f.max)),
    );
}
