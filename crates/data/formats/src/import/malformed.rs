//! Problems with a value, a line or a file. The reader adds the file name and the line number.

use punctual_model::Nanos;

use super::head::shown;
use crate::hdr::NotHdr;

/// A problem in a file. Any text quoted from the file is shortened in the same way as in all
/// messages ([`shown`]).
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    /// A problem in one part of the file, such as a thread or a CPU.
    #[error("{part}: {why}")]
    In { part: String, why: Box<Self> },

    // Problems with lines.
    #[error("\"{0}\" is not a line that these tools print")]
    Foreign(String),
    #[error("\"{0}\" is not a line that cyclictest writes below the histogram")]
    BelowHistogram(String),
    #[error("\"{0}\" is not a sample (thread:cycle:latency)")]
    NoSample(String),
    #[error("a second line '{0}'")]
    SecondLine(String),
    #[error("a second line '{0}': the file contains two runs, split it")]
    SecondRun(String),
    #[error("the line '{0}' is missing: the file is truncated")]
    MissingLine(&'static str),
    #[error("the line '{0}' is missing: the output is truncated or was written with --quiet")]
    MissingSummary(&'static str),
    #[error("the line has no {0}")]
    MissingField(&'static str),
    #[error("the line has no {0}, which cyclictest always prints")]
    MissingUsualField(&'static str),
    #[error("the sample has no '{0}:'")]
    MissingInSample(&'static str),
    #[error("the file ends inside this line: it is truncated")]
    LineTruncated,
    #[error("the line is not UTF-8 text")]
    LineNotText,
    #[error("the line with the overflows of each thread is missing: the file is truncated")]
    MissingOverflows,
    #[error("the line with its figures is missing: the file is truncated")]
    MissingFigures,
    #[error("the summary is missing or truncated: the line 'Duration:' was not found")]
    MissingDuration,
    #[error("no table found, or its number of rows for CPUs is 0 or too large")]
    NoTable,
    #[error("no line states the period, which is needed to calculate the number of samples")]
    MissingPeriod,
    #[error("no line of a pair found")]
    NoPair,
    #[error("the line that introduces this pair is missing")]
    PairNotIntroduced,
    #[error("oslat stopped at its trace threshold and printed no figures")]
    StoppedAtThreshold,

    // Problems with a second run or another format in the same file.
    #[error("a second histogram begins here: split the file into one file for each run")]
    SecondHistogram,
    #[error("a second summary begins here: split the file")]
    SecondSummary,
    #[error(
        "a second table begins here, and it may belong to another run: keep only the last table, \
         or split the file"
    )]
    SecondTable,
    #[error("a histogram begins here: import the file with --format cyclictest-hist")]
    HistogramBegins,
    #[error("a histogram begins here, below samples: split the file")]
    HistogramAfterSamples,
    #[error("fewer cycles than before: the file contains two runs, split it")]
    FewerCycles,
    #[error(
        "{what} {number} has the thread ID {id}, but had {before} before: the file contains two \
         runs, split it"
    )]
    OtherThreadId {
        what: &'static str,
        number: u64,
        id: u64,
        before: u64,
    },
    #[error("the priority or interval of thread {0} changed: the file contains two runs, split it")]
    OtherSettings(u64),
    #[error("a second run begins here: split the file into one file for each run")]
    SecondRunBegins,
    #[error(
        "more figures follow below \"{0}\": remove this text, or split the file if it contains \
         two runs"
    )]
    FiguresBelowWords(String),
    #[error(
        "the width of the columns changed: the file contains two runs, one in microseconds and \
         one in nanoseconds; split it"
    )]
    OtherWidth,

    // Problems with values.
    #[error("'{0}' is not a count")]
    NotACount(String),
    #[error("'{0}' is not a time")]
    NotATime(String),
    #[error("'{0}' is not a unit of time (nsecs, usecs, msecs)")]
    NotATimeUnit(String),
    #[error("'{0}' does not have three decimals")]
    NoDecimals(String),
    #[error("{0} is not a CPU")]
    NotACpu(u64),
    #[error("the core '{0}' is not a CPU")]
    NotACore(String),
    #[error("{0} is not a priority")]
    NotAPriority(u64),
    #[error("{what} number {number} is too large")]
    NumberTooLarge { what: &'static str, number: u64 },
    #[error("{0} µs is out of range")]
    TimeTooLong(String),
    #[error("{0} us are out of range")]
    MicrosTooMany(u64),
    #[error("{name} {value} is out of range")]
    FigureTooLarge { name: &'static str, value: u64 },
    #[error("{name} is '{text}', not a latency")]
    NotALatency { name: &'static str, text: String },
    #[error("{latency} {unit} is not a latency")]
    LatencyTooLarge { latency: i64, unit: &'static str },
    #[error(
        "{name} is {text}, but a latency is never negative: this run is invalid (cyclictest 2.4 \
         with -x writes such files), and nothing was imported"
    )]
    NegativeLatency { name: &'static str, text: String },
    #[error(
        "minimum {min}, mean {avg} and maximum {max} are inconsistent: this run is invalid \
         (cyclictest 2.4 with -x writes such files), and nothing was imported"
    )]
    Inconsistent { min: u64, avg: u64, max: u64 },
    #[error("a sample is out of range")]
    SampleTooLong,
    #[error("the duration is out of range")]
    DurationTooLong,
    #[error("the figures are out of range")]
    FiguresTooLarge,
    #[error("the duration does not have the form '0 00:01:30'")]
    DurationForm,
    #[error("the time unit is not 'us'")]
    UnitNotMicros,
    #[error(
        "the file does not show whether its unit is microseconds or nanoseconds: the numbers fill \
         their columns, or spaces were removed; use --unit us or --unit ns"
    )]
    UnitUnknown,
    #[error(
        "the file does not state its unit, and the spaces that would show it were removed. The \
         smallest latency of thread {thread} is {min}, and its interval is {interval_us} µs, so \
         the unit is probably nanoseconds (cyclictest -N). Use --unit ns, or --unit us"
    )]
    UnitProbablyNanos {
        thread: u64,
        min: u64,
        interval_us: u64,
    },
    #[error("the file states its unit: omit --unit")]
    UnitStated,
    #[error("the columns have the width of the other unit: omit --unit")]
    OtherUnitGiven,
    #[error("the percentage of available CPU time is not a number")]
    ShareNotANumber,
    #[error("the first column does not contain a CPU number")]
    FirstColumnNotACpu,

    // Problems with figures that contradict each other.
    #[error("the minimum, {min}, is not in the first filled row, {row}")]
    MinimumBesideRows { min: Nanos, row: Nanos },
    #[error("the maximum, {max}, is not in the last filled row, {row}")]
    MaximumBesideRows { max: Nanos, row: Nanos },
    #[error("the minimum, {min}, is above the maximum, {max}")]
    MinimumAboveMaximum { min: Nanos, max: Nanos },
    #[error("the mean, {0}, is not between the minimum and the maximum")]
    MeanOutside(Nanos),
    #[error("the figures of this line contradict each other or the figures of the run")]
    SecondOutside,
    #[error("some samples are below the minimum {min} or above the maximum {max}")]
    SamplesOutside { min: u64, max: u64 },
    #[error("there are {overflows} overflows, but the maximum {max} is in a row of the histogram")]
    MaximumInRows { overflows: u64, max: u64 },
    #[error(
        "there are {overflows} overflows, but the file lists {listed} and mentions {others} others"
    )]
    OverflowsListed {
        overflows: u64,
        listed: usize,
        others: u64,
    },
    #[error("{listed} samples are listed, but 'Samples recorded' is {recorded}")]
    SamplesListed { listed: u64, recorded: u64 },
    #[error("the rows and overflows contain {total} samples, but the line 'count:' states {count}")]
    SamplesCounted { total: u64, count: u64 },
    #[error("the buckets contain {total} samples, but <samples> is {samples}")]
    SamplesInBuckets { total: u64, samples: u64 },
    #[error("the whole system has {system} samples, but the sum of its cores is {sum}")]
    SamplesOfSystem { system: u64, sum: u64 },
    #[error("the number of samples does not fit into 64 bits")]
    SamplesTooMany,
    #[error("the rows of the histogram and the line 'Total' are missing")]
    MissingRows,
    #[error("the number of samples in its rows does not fit into 64 bits")]
    SamplesTooManyInRows,
    #[error("the maximum is not in any bucket")]
    MaximumInNoBucket,
    #[error("'Total' is not the sum of the rows")]
    TotalNotSum,
    #[error("the last column is not the sum of the others")]
    LastColumnNotSum,
    #[error("single noise, noise of a period, noise and runtime are not in increasing order")]
    NoiseNotIncreasing,

    // Problems with rows, columns and parts that are duplicate, out of order, or too many.
    #[error("more than {most} {what}")]
    TooMany { most: usize, what: &'static str },
    #[error("its lines contain more filled buckets than their length allows")]
    Bomb,
    #[error("there are more than {0} cores")]
    TooManyCores(usize),
    #[error(
        "the last table has other CPUs than the previous table: it is truncated, or belongs to \
         another run"
    )]
    OtherCpus,
    #[error("CPU {0} appears twice: was the file joined from two files?")]
    CpuTwice(u32),
    #[error("core {0} appears twice")]
    CoreTwice(u32),
    #[error("the bucket {0} appears twice")]
    BucketTwice(Nanos),
    #[error("row {0} is not greater than the previous row")]
    RowNotAbove(u64),
    #[error("the row at {0} does not continue the row before it")]
    RowNotNext(u64),
    #[error(
        "the row has {0} keys that are latencies, not one: a latency has .log2 or .buckets, or a name \
         with lat, delta, delay or duration"
    )]
    KeysOfLatency(usize),
    #[error("the keys do not end on their line: a table with a stack trace is not imported")]
    KeysNotOnOneLine,
    #[error("the rows do not double in width, as those of hist() and BCC do")]
    RowsNotDoubling,
    #[error("row {row} is above cyclictest's limit of {limit}")]
    RowAboveLimit { row: u64, limit: usize },
    #[error("row {0} has too many columns")]
    RowTooWide(u64),
    #[error("row {0} has no count")]
    RowEmpty(u64),
    #[error("row {row} has {columns} columns, but the previous rows have {before}")]
    RowColumns {
        row: u64,
        columns: usize,
        before: usize,
    },
    #[error("the rows have {columns} columns, but 'Min Latencies' has {threads}")]
    Columns { columns: usize, threads: usize },
    #[error("'Min Latencies' names {0} threads")]
    Threads(usize),
    #[error("'{name}' has {found} figures instead of {wanted}")]
    Figures {
        name: &'static str,
        found: usize,
        wanted: usize,
    },
    #[error("there are {0} figures for 9 columns")]
    FiguresOfRow(usize),
    #[error("there are {values} values for {cpus} CPUs")]
    Values { values: usize, cpus: usize },
    #[error("thread {0} is out of order")]
    ThreadOutOfOrder(u64),
    #[error("threads {sender} and {receiver} do not form a pair")]
    NotAPair { sender: u64, receiver: u64 },
    #[error(
        "thread {0} has fewer cycles or a smaller maximum than before: the file contains two \
         runs, split it"
    )]
    ThreadWentBack(u64),
    #[error(
        "cycle {cycle} of thread {thread} follows cycle {before}: the file contains two runs, \
         split it"
    )]
    CycleWentBack {
        cycle: u64,
        thread: u64,
        before: u64,
    },
    #[error("the bucket is not greater than the previous bucket")]
    BucketNotAbove,
    #[error("the line 'Core:' lists no CPU, too many CPUs, or a CPU twice")]
    CoreLine,

    // Problems with HdrHistogram's files.
    #[error("{0}")]
    Hdr(NotHdr),
    #[error("the log contains no interval")]
    NoInterval,
    #[error(
        "two intervals of one tag begin at the same time: split the file if it contains two logs"
    )]
    IntervalTwice,
    #[error("the values or counts are not in increasing order")]
    PercentileNotAbove,

    // Problems with XML.
    #[error("not well-formed XML: {0}")]
    NotWellFormed(#[source] quick_xml::Error),
    #[error("a bad attribute: {0}")]
    Attribute(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0}")]
    Reference(#[source] quick_xml::Error),
    #[error("unknown entity '&{0};'")]
    UnknownEntity(String),
    #[error("elements are nested deeper than {0}")]
    TooDeep(usize),
    #[error("the file ends inside <{0}>: it is truncated")]
    EndsInside(String),
    #[error("the file begins with <{0}> instead of <rteval>")]
    OtherRoot(String),
    #[error("<{0}> is not in us")]
    OtherUnit(String),
    #[error("<bucket> has no '{0}'")]
    BucketWithout(&'static str),
    #[error("the file is not a single XML document")]
    NotOneDocument,
    #[error("text outside of all elements")]
    TextOutside,
    #[error("<core> has no 'id'")]
    CoreWithoutId,
    #[error("<samples> is missing")]
    MissingSamples,
    #[error("the file has measurements of both cyclictest and timerlat: split it")]
    BothTools,
    #[error("the file has no measurement with cyclictest or timerlat")]
    NoMeasurement,
    #[error(
        "the file has no figures: rteval omits them if the maximum was beyond its histogram or \
         tracing stopped the run"
    )]
    NoFigures,
}

impl Malformed {
    /// Adds the name of the part of the file that contains the problem.
    pub(crate) fn within(self, part: impl Into<String>) -> Self {
        Self::In {
            part: part.into(),
            why: Box::new(self),
        }
    }

    /// Creates the error for a line that none of the tools of this format writes.
    pub(crate) fn foreign(line: &[u8]) -> Self {
        Self::Foreign(shown(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All messages that contain no value. Users and their scripts rely on the wording.
    #[test]
    fn fixed_messages_stay_as_they_are() {
        let messages = [
            (
                Malformed::LineTruncated,
                "the file ends inside this line: it is truncated",
            ),
            (Malformed::LineNotText, "the line is not UTF-8 text"),
            (
                Malformed::MissingOverflows,
                "the line with the overflows of each thread is missing: the file is truncated",
            ),
            (
                Malformed::MissingFigures,
                "the line with its figures is missing: the file is truncated",
            ),
            (
                Malformed::MissingDuration,
                "the summary is missing or truncated: the line 'Duration:' was not found",
            ),
            (Malformed::NoPair, "no line of a pair found"),
            (
                Malformed::PairNotIntroduced,
                "the line that introduces this pair is missing",
            ),
            (
                Malformed::StoppedAtThreshold,
                "oslat stopped at its trace threshold and printed no figures",
            ),
            (
                Malformed::SecondHistogram,
                "a second histogram begins here: split the file into one file for each run",
            ),
            (
                Malformed::SecondSummary,
                "a second summary begins here: split the file",
            ),
            (
                Malformed::HistogramBegins,
                "a histogram begins here: import the file with --format cyclictest-hist",
            ),
            (
                Malformed::HistogramAfterSamples,
                "a histogram begins here, below samples: split the file",
            ),
            (
                Malformed::FewerCycles,
                "fewer cycles than before: the file contains two runs, split it",
            ),
            (
                Malformed::OtherWidth,
                "the width of the columns changed: the file contains two runs, one in \
                 microseconds and one in nanoseconds; split it",
            ),
            (
                Malformed::MissingField("test duration"),
                "the line has no test duration",
            ),
            (Malformed::SampleTooLong, "a sample is out of range"),
            (Malformed::DurationTooLong, "the duration is out of range"),
            (Malformed::FiguresTooLarge, "the figures are out of range"),
            (
                Malformed::DurationForm,
                "the duration does not have the form '0 00:01:30'",
            ),
            (Malformed::UnitNotMicros, "the time unit is not 'us'"),
            (
                Malformed::ShareNotANumber,
                "the percentage of available CPU time is not a number",
            ),
            (
                Malformed::FirstColumnNotACpu,
                "the first column does not contain a CPU number",
            ),
            (
                Malformed::SamplesTooMany,
                "the number of samples does not fit into 64 bits",
            ),
            (
                Malformed::SamplesTooManyInRows,
                "the number of samples in its rows does not fit into 64 bits",
            ),
            (
                Malformed::MaximumInNoBucket,
                "the maximum is not in any bucket",
            ),
            (Malformed::TotalNotSum, "'Total' is not the sum of the rows"),
            (
                Malformed::LastColumnNotSum,
                "the last column is not the sum of the others",
            ),
            (
                Malformed::NoiseNotIncreasing,
                "single noise, noise of a period, noise and runtime are not in increasing order",
            ),
            (
                Malformed::BucketNotAbove,
                "the bucket is not greater than the previous bucket",
            ),
            (
                Malformed::CoreLine,
                "the line 'Core:' lists no CPU, too many CPUs, or a CPU twice",
            ),
            (
                Malformed::NotOneDocument,
                "the file is not a single XML document",
            ),
            (Malformed::TextOutside, "text outside of all elements"),
            (Malformed::CoreWithoutId, "<core> has no 'id'"),
            (Malformed::MissingSamples, "<samples> is missing"),
            (
                Malformed::BothTools,
                "the file has measurements of both cyclictest and timerlat: split it",
            ),
            (
                Malformed::NoMeasurement,
                "the file has no measurement with cyclictest or timerlat",
            ),
            (
                Malformed::NoFigures,
                "the file has no figures: rteval omits them if the maximum was beyond its \
                 histogram or tracing stopped the run",
            ),
        ];
        for (reason, message) in messages {
            assert_eq!(reason.to_string(), message);
        }
    }
}
