//! Selects the curves of a plot, their names and their styles.

use punctual_model::{
    CpuSet, Histogram, Limit, Metric, Nanos, ProbeRun, Recording, ThreadRecord, counted, grouped,
};

use super::canvas::{Colour, Stroke};
use super::{Heading, PlotOptions};
use crate::figures;

/// If there are more curves than this, only those with the largest maxima have a colour.
const NAMED_AT_MOST: usize = 12;
/// The number of coloured curves in that case.
const WORST_NAMED: usize = 4;

/// The colours of Okabe and Ito (Color Universal Design, 2008) without yellow, which is hard to see
/// on white paper. The first two also differ most in greyscale.
pub(super) const COLOURS: [Colour; 7] = [
    Colour(0x00, 0x00, 0x00),
    Colour(0xd5, 0x5e, 0x00),
    Colour(0x00, 0x72, 0xb2),
    Colour(0x00, 0x9e, 0x73),
    Colour(0xcc, 0x79, 0xa7),
    Colour(0xe6, 0x9f, 0x00),
    Colour(0x56, 0xb4, 0xe9),
];
/// From the eighth curve on, the colours repeat with dashed lines.
const DASHES: [&[f64]; 2] = [&[], &[5.0, 2.0]];
/// The style of curves without a colour.
const BACKGROUND: Stroke = Stroke::solid(Colour(0xa9, 0xbd, 0xcd), 0.6);

/// The line of a limit.
pub(super) const LIMIT: Stroke = Stroke {
    colour: Colour(0xa0, 0x00, 0x28),
    width: 1.2,
    dash: &[6.0, 3.0],
};

/// The curves that do not have a colour of their own.
pub(super) struct Others {
    /// Text that states how many there are, what they are, and their largest maximum.
    pub(super) title: String,
    pub(super) stroke: Stroke,
    /// Each curve with its maximum, in the order of the recording.
    pub(super) each: Vec<String>,
    /// Their CPUs, if each curve stands for one CPU.
    pub(super) cpus: Option<CpuSet>,
}

/// One curve.
pub(super) struct Curve {
    /// The name, or `None` for one of the many curves without a colour, whose names are in
    /// [`Others`].
    pub(super) name: Option<String>,
    pub(super) histogram: Histogram,
    pub(super) stroke: Stroke,
}

/// The curves in drawing order (named ones last, on top), and the legend of the others.
pub(super) struct Curves {
    pub(super) list: Vec<Curve>,
    pub(super) others: Option<Others>,
    /// All samples shown.
    pub(super) all: Histogram,
}

impl Curves {
    /// Returns one curve per thread for a single recording, or one curve per recording for several.
    pub(super) fn new(recordings: &[&Recording], options: &PlotOptions) -> Self {
        let named: Vec<(String, Histogram)> = match recordings {
            [one] if options.thread.is_none() => one
                .threads
                .iter()
                .map(|thread| (thread.title(), thread.histogram.clone()))
                .collect(),
            several => several
                .iter()
                .map(|r| (recording_name(r, several, options), shown(r, options)))
                .collect(),
        };
        let mut all = Histogram::new();
        for (_, histogram) in &named {
            all.merge(histogram);
        }
        let cpus: Option<Vec<u32>> = match recordings {
            [one] if options.thread.is_none() => one.threads.iter().map(cpu_of).collect(),
            _ => None,
        };
        let what = match (recordings.len(), &cpus) {
            (2.., _) => "recordings",
            (_, Some(_)) => "CPUs",
            _ => "threads",
        };
        let (list, others) = styled(named, cpus.as_deref(), what);
        Self { list, others, all }
    }
}

/// Returns the CPU that the thread is named after.
fn cpu_of(thread: &ThreadRecord) -> Option<u32> {
    thread.cpu.filter(|_| figures::named_by_cpu(thread))
}

/// Returns a key to rank curves by their maximum. If the maxima are equal, p99.9 decides, and then
/// the mean.
pub(super) fn badness(histogram: &Histogram) -> impl Ord + use<> {
    (histogram.max(), histogram.quantile(0.999), histogram.mean())
}

/// Gives each curve its style: if there are few, each has a colour; otherwise, only those with the
/// largest maxima do. `cpus` contains the CPU of each curve.
fn styled(
    named: Vec<(String, Histogram)>,
    cpus: Option<&[u32]>,
    what: &str,
) -> (Vec<Curve>, Option<Others>) {
    let count = named.len();
    let mut order: Vec<usize> = (0..count).collect();
    if count > NAMED_AT_MOST {
        order.sort_by_cached_key(|index| std::cmp::Reverse(badness(&named[*index].1)));
        order.truncate(WORST_NAMED);
    }
    let mut curves: Vec<Curve> = Vec::with_capacity(count);
    let mut on_top = Vec::new();
    let mut others = Vec::new();
    for (index, (name, histogram)) in named.into_iter().enumerate() {
        let name = with_max(&name, &histogram);
        let rank = order.iter().position(|chosen| *chosen == index);
        let curve = Curve {
            name: rank.map(|_| name.clone()),
            histogram,
            stroke: rank.map_or(BACKGROUND, of_rank),
        };
        match rank {
            Some(rank) => on_top.push((rank, curve)),
            None => {
                others.push((index, name));
                curves.push(curve);
            }
        }
    }
    let others = (!others.is_empty()).then(|| {
        let max = curves
            .iter()
            .filter_map(|curve| curve.histogram.max())
            .max();
        let up_to = max.map_or_else(String::new, |max| format!("  max ≤ {max}"));
        let cpu = |(index, _): &(usize, String)| cpus?.get(*index).copied();
        Others {
            title: format!("{} other {what}{up_to}", others.len()),
            stroke: BACKGROUND,
            cpus: others.iter().map(cpu).collect(),
            each: others.into_iter().map(|(_, name)| name).collect(),
        }
    });
    // The curve with the largest maximum is first in the legend and drawn last.
    on_top.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    curves.extend(on_top.into_iter().map(|(_, curve)| curve));
    (curves, others)
}

/// Returns the style for a rank.
fn of_rank(rank: usize) -> Stroke {
    Stroke {
        colour: COLOURS[rank % COLOURS.len()],
        width: 1.2,
        dash: DASHES[(rank / COLOURS.len()) % DASHES.len()],
    }
}

fn with_max(name: &str, histogram: &Histogram) -> String {
    match histogram.max() {
        Some(max) => format!("{name}  max {max}"),
        None => format!("{name}  no samples"),
    }
}

/// Returns the name of a recording: its label, and its machine if there are several. If that is not
/// unique, the name contains the short ID.
pub(super) fn recording_name(
    recording: &Recording,
    all: &[&Recording],
    options: &PlotOptions,
) -> String {
    // This also happens for a single recording if one of its threads was selected.
    if let (&[one], Some(thread)) = (all, options.thread) {
        let thread = one.threads.get(thread);
        return thread.map_or_else(String::new, |thread| thread.title());
    }
    let machine = |one: &Recording| one.host.hostname.get().cloned();
    let has_several = all.iter().any(|one| machine(one) != machine(recording));
    let words = |one: &Recording| {
        let machine = machine(one).filter(|_| has_several);
        machine
            .into_iter()
            .chain(one.label.clone())
            .collect::<Vec<_>>()
    };
    let mut own = words(recording);
    let same = all.iter().filter(|one| words(one) == own).count();
    if own.is_empty() || same > 1 {
        own.push(recording.id.short());
    }
    own.join(" ")
}

/// Returns the samples to plot: those of all threads, or of the selected one.
fn shown(recording: &Recording, options: &PlotOptions) -> Histogram {
    match options
        .thread
        .and_then(|thread| recording.threads.get(thread))
    {
        Some(thread) => thread.histogram.clone(),
        None => recording.all_latencies(),
    }
}

/// Returns the distinct limits on latency, each with its name and value.
pub(super) fn limits(recordings: &[&Recording]) -> Vec<(String, Nanos)> {
    let mut list: Vec<(String, Nanos)> = Vec::new();
    let mut add = |name: String, at: Nanos| {
        if !list.iter().any(|known| *known == (name.clone(), at)) {
            list.push((name, at));
        }
    };
    for Limit { metric, at_most } in recordings.iter().flat_map(|r| &r.requirement.limits) {
        let at = Nanos(*at_most);
        match metric {
            Metric::Max => add(format!("limit {at}"), at),
            Metric::Percentile(_) => add(format!("{metric} limit {at}"), at),
            Metric::Warn => add(format!("warn level {at}"), at),
            Metric::Break => add(format!("break value {at}"), at),
            Metric::Misses { budget, .. } => add(format!("budget {budget}"), *budget),
            Metric::Missed => {}
        }
    }
    for asked in recordings.iter().filter_map(|one| one.periodic()) {
        add(format!("budget {}", asked.budget_ns), asked.budget_ns);
    }
    list
}

/// Returns the name of the measured quantity, for a heading and for an axis. Recordings of different
/// quantities have only a time in common.
pub(crate) fn quantity_of(recordings: &[&Recording]) -> (&'static str, &'static str) {
    let mut probes = recordings.iter().map(|recording| &recording.probe);
    let first = probes.next();
    match first {
        Some(first) if probes.all(|probe| probe.quantity() == first.quantity()) => {
            ProbeRun::quantity_of(&first.name)
        }
        None => ("Latency", "latency"),
        Some(_) => ("Time", "time"),
    }
}

/// Returns the heading and the line below it. Empty parts are left out.
pub(super) fn headings(
    what: &str,
    recordings: &[&Recording],
    options: &PlotOptions,
) -> (String, String) {
    match &options.heading {
        Heading::None => (String::new(), String::new()),
        Heading::Text(text) => (text.clone(), String::new()),
        Heading::Auto => match recordings {
            [one] => (
                format!("{what}: {}", one.headline()),
                provenance(one, options),
            ),
            several => (
                format!("{what}: {} recordings", several.len()),
                shared(several),
            ),
        },
    }
}

/// Returns the machine, the time and the number of samples.
fn provenance(recording: &Recording, options: &PlotOptions) -> String {
    let host = &recording.host;
    let mut parts = Vec::new();
    parts.extend(
        options
            .thread
            .and_then(|t| recording.threads.get(t))
            .map(|t| t.title()),
    );
    parts.extend(host.hostname.get().cloned());
    parts.extend(host.kernel.release.get().cloned());
    parts.push(figures::started(recording, 0));
    parts.push(figures::duration(recording));
    let account = options
        .thread
        .and_then(|thread| recording.threads.get(thread))
        .map_or_else(|| recording.accounting(), |thread| thread.accounting);
    parts.push(counted(account.recorded, "sample", "samples"));
    if account.missed > 0 {
        parts.push(format!("{} missed", grouped(account.missed)));
    }
    if account.early > 0 {
        parts.push(format!("{} early (not shown)", grouped(account.early)));
    }
    parts.join(" · ")
}

/// Returns the headline that all recordings share, or nothing.
fn shared(recordings: &[&Recording]) -> String {
    let first = recordings.first().map(|r| r.headline()).unwrap_or_default();
    if recordings.iter().all(|r| r.headline() == first) {
        first
    } else {
        String::new()
    }
}
