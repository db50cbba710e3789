//! Files that cannot be imported, with a remedy for each.

use super::Head;

/// First bytes of the file, name of this kind of file, and a remedy.
const FOREIGN: [(&[u8], &str); 13] = [
    (
        b"\x1f\x8b",
        "is compressed with gzip: gzip -dc FILE | punctual import -",
    ),
    (
        b"\xfd7zXZ\0",
        "is compressed with xz: xz -dc FILE | punctual import -",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "is compressed with zstd: zstd -dc FILE | punctual import -",
    ),
    (
        b"BZh",
        "is compressed with bzip2: bzip2 -dc FILE | punctual import - (unpack the summary.xml of \
         an rteval archive)",
    ),
    (b"PK\x03\x04", "is a zip archive: unpack it first"),
    (
        b"\xff\xfe",
        "is text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | punctual import -",
    ),
    (
        b"\xfe\xff",
        "is text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | punctual import -",
    ),
    (
        b"PAR1",
        "is a Parquet file: punctual can export Parquet but not import it",
    ),
    (
        b"SQLite format 3\0",
        "is an SQLite database: if it is a punctual store, open it with --store",
    ),
    (
        b"\x17\x08Dtracing",
        "is a trace.dat of trace-cmd, which contains events but no latencies",
    ),
    (
        b"PERFILE2",
        "is a perf.data: punctual explain --trace FILE explains its late reactions",
    ),
    (
        b"2ELIFREP",
        "is a perf.data: punctual explain --trace FILE explains its late reactions",
    ),
    (
        b"\x7fELF",
        "is an executable file: import the output of a program",
    ),
];

/// Text that only one tool prints, the name of the tool, and a remedy.
const TOOLS: [(&str, &str); 33] = [
    (
        "RTAI",
        "is the output of RTAI, whose RTD| lines have different columns from Xenomai's: it cannot \
         be imported",
    ),
    (
        "# libevl version:",
        "is a plot file of latmus --plot, which cannot be imported: import the lines that latmus prints",
    ),
    (
        "min/avg/max/mdev",
        "is the output of ping, which cannot be imported: punctual measure socket measures a round trip",
    ),
    (
        "bytes of data.",
        "is the output of ping, which cannot be imported: punctual measure socket measures a round trip",
    ),
    (
        "Running in process mode with",
        "is the output of hackbench, which measures a total time and no latencies",
    ),
    (
        "Running in threaded mode with",
        "is the output of hackbench, which measures a total time and no latencies",
    ),
    (
        "Total inversion performed",
        "is the output of pi_stress, which counts inversions and measures no latencies",
    ),
    (
        "Starting PI Stress Test",
        "is the output of pi_stress, which counts inversions and measures no latencies",
    ),
    (
        "int_n_per_sec:",
        "is the table of sysjitter, with percentiles of the interruptions of each core: it cannot \
         be imported; punctual measure hardware measures such interruptions",
    ),
    (
        "ptp4l[",
        "is the log of ptp4l, which synchronises clocks: it cannot be imported; punctual measure \
         clock measures clocks",
    ),
    (
        "phc2sys[",
        "is the log of phc2sys, which synchronises clocks: it cannot be imported; punctual measure \
         clock measures clocks",
    ),
    (
        " of NTP time",
        "is the output of chronyc tracking, which shows the offset of a clock and no latencies",
    ),
    (
        "Skew ppm",
        "is a log of chrony, which shows the offset of a clock and no latencies",
    ),
    (
        "rteval (v",
        "is the text report of rteval: import its summary.xml instead",
    ),
    (
        "[tid/pid]",
        "is the output of perf sched timehist, which cannot be imported: import the output of perf \
         sched latency, or explain the trace with punctual explain --trace perf.data",
    ),
    (
        "# tracer: function_graph",
        "is the trace of the tracer function_graph: punctual explain --trace FILE prints its longest \
         runs of functions and, if sched:sched_switch and sched:sched_waking were also recorded, names \
         the functions that delayed threads",
    ),
    (
        " ms): ",
        "is the output of perf trace, which lists system calls and no latencies: explain perf.data \
         of perf sched record with punctual explain --trace perf.data",
    ),
    (
        ") = 0 <0.",
        "is the output of strace, which slows down each system call and shows no latencies: \
         punctual explain --pid PID finds and explains slow jobs",
    ),
    (
        "<unfinished ...>",
        "is the output of strace, which slows down each system call and shows no latencies: \
         punctual explain --pid PID finds and explains slow jobs",
    ),
    (
        "Kwork Name",
        "is the output of perf kwork, which cannot be imported: explain the trace with punctual \
         explain --trace perf.data",
    ),
    (
        "LAT(us)",
        "is the output of runqslower, which lists only late wake-ups and cannot be imported: \
         punctual explain --wait --comm NAME finds and explains them",
    ),
    (
        "rel_st",
        "is a log of rt-app, which cannot be imported: punctual explain --comm NAME follows the \
         jobs of an application",
    ),
    (
        "packetfillrates=",
        "is the output of queuelat, which cannot be imported",
    ),
    (
        "forktest#",
        "is the output of ssdd, which tests a debugger interface and measures no latencies",
    ),
    (
        "Wakeup Latencies percentiles",
        "is the output of schbench, which cannot be imported: punctual measure wakeup measures wake-ups",
    ),
    (
        " cyclic: sched SCHED_",
        "is the output of stress-ng --cyclic, which cannot be imported: punctual measure timer \
         measures the same latency",
    ),
    (
        "stress-ng: ",
        "is the output of stress-ng, which is a load: import the output of the tool that measured",
    ),
    (
        "Avg_MHz",
        "is the output of turbostat, which contains no latencies",
    ),
    (
        "Performance counter stats for",
        "is the output of perf stat, which contains no latencies",
    ),
    (
        "# Running 'sched/",
        "is the output of perf bench sched, which measures a total time and no latencies",
    ),
    (
        "clat percentiles (",
        "is the output of fio, which measures a storage device and cannot be imported",
    ),
    (
        "sockperf:",
        "is the output of sockperf, which cannot be imported: punctual measure socket measures a round trip",
    ),
    (
        "Wakeup to HW TX timestamp",
        "is the report of isochron, which cannot be imported",
    ),
];

/// Returns the name of the tool that printed a text, if it is a known tool that is not supported.
pub(super) fn tool(head: &Head<'_>) -> Option<&'static str> {
    let found = TOOLS.iter().find(|(sign, _)| head.contains(sign));
    found.map(|(_, what)| *what)
}

/// Returns the kind of a file with this beginning, if it is a known kind that cannot be imported.
pub(super) fn what(begins: &[u8]) -> Option<&'static str> {
    if begins.trim_ascii().is_empty() {
        return Some("is empty");
    }
    if is_perfetto(begins) {
        return Some(
            "is a trace of Perfetto, which cannot be imported: punctual explain --trace FILE explains \
             its late reactions",
        );
    }
    let found = FOREIGN.iter().find(|(sign, _)| begins.starts_with(sign));
    found.map(|(_, what)| *what)
}

/// Returns whether a file begins with two messages of a Perfetto trace: the tag of field 1, and a
/// length (protobuf.dev/programming-guides/encoding).
fn is_perfetto(bytes: &[u8]) -> bool {
    const TAG: u8 = 0x0a;
    let mut rest = bytes;
    for _ in 0..2 {
        let Some((TAG, after)) = rest.split_first().map(|(tag, after)| (*tag, after)) else {
            return false;
        };
        let (mut length, mut bits) = (0_usize, 0);
        rest = after;
        while let Some((byte, after)) = rest.split_first()
            && bits < 28
        {
            length |= usize::from(byte & 0x7f) << bits;
            (bits, rest) = (bits + 7, after);
            if byte & 0x80 == 0 {
                break;
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    // A text may begin with line feeds, but it has no control characters.
    let is_binary = |byte: &u8| *byte < 0x09 || (0x0e..0x1b).contains(byte);
    bytes.iter().take(256).any(is_binary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{ImportError, recognise};

    #[test]
    fn tools_without_an_import_are_named() {
        for (sign, said) in TOOLS {
            let text = format!("Some words\n {sign} 12\nfurther words\n");
            let head = Head {
                bytes: text.as_bytes(),
                whole: true,
            };
            let error = recognise("x", &head).unwrap_err();
            assert_eq!(error.to_string(), format!("x: {said}"));
        }
    }

    #[test]
    fn known_foreign_formats_get_advice() {
        for (sign, said) in FOREIGN {
            let head = Head {
                bytes: sign,
                whole: true,
            };
            let error = recognise("x", &head).unwrap_err();
            assert!(matches!(error, ImportError::Foreign { .. }), "{error}");
            assert_eq!(error.to_string(), format!("x: {said}"));
        }
        let perfetto = what(b"\x0a\x03\x08\x01\x10\x0a\x02\x08\x01\x0a\x00");
        assert!(perfetto.is_some_and(|what| what.contains("Perfetto")));
        assert_eq!(what(b"\n\nT: 0 ( 1229) P:95\n\n"), None);
        assert_eq!(what(b""), Some("is empty"));
        assert_eq!(what(b"\n \r\n"), Some("is empty"));
        assert_eq!(what(b"# Histogram\n"), None);
    }
}
