//! `parquet`: every sample as a row of an Apache Parquet file, for data frames
//! and databases.
//!
//! | column | type | content |
//! |---|---|---|
//! | `thread` | int32 | index of the thread in the recording |
//! | `cpu` | int32, may be null | CPU of the thread; null if not pinned |
//! | `expected_ns` | int64 | due time, on CLOCK_MONOTONIC; `cycle`, the cycle number, if another tool did not record times |
//! | `latency_ns` | int64 | latency; negative if early |
//!
//! The threads follow one after another, each with its samples in the order of measurement. The
//! file's metadata contains the recording, the program, the start and the host
//! (`punctual.recording`, `punctual.program`, `punctual.started`, `punctual.hostname`), the number
//! of samples that could not be stored (`punctual.dropped_samples`), and the step to which
//! latencies are rounded down (`punctual.sample_resolution_ns`). The file is compressed with
//! Snappy, which every reader supports.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{Compression, Encoding, Repetition, Type as Physical};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use punctual_model::{Recording, Sample};

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "parquet",
    summary: "every sample as Parquet: thread, CPU, expected time, latency",
    extension: "parquet",
    needs_samples: true,
    micro_rows: false,
    write,
};

/// Number of rows per group. They are all in memory at the same time, with 24 bytes each.
const GROUP: usize = 256 * 1024;

pub(super) fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let kept = export.kept(FORMAT.name)?;
    let spool = Spool::default();
    let properties = properties(export.recording);
    let mut file = SerializedFileWriter::new(
        spool.clone(),
        schema(export.time_column())?,
        Arc::new(properties),
    )?;
    let mut read = 0;
    for thread in 0..export.recording.threads.len() as u32 {
        read += write_thread(export, thread, &mut file, &spool, out)?;
    }
    file.finish()?;
    spool.drain(out)?;
    export.check_read(kept, read)
}

/// Writes the row groups of one thread. Returns the number of samples.
fn write_thread(
    export: &Export<'_>,
    thread: u32,
    file: &mut SerializedFileWriter<Spool>,
    spool: &Spool,
    out: &mut dyn Write,
) -> Result<u64, FormatError> {
    let cpu = export.cpu_of(thread);
    let mut group: Vec<Sample> = Vec::new();
    let mut read = 0;
    let mut flush = |group: &mut Vec<Sample>| -> Result<(), FormatError> {
        write_group(group, thread, cpu, file.next_row_group()?)?;
        group.clear();
        Ok(spool.drain(out)?)
    };
    // The source returns errors of the callback unchanged, so output errors must be distinguished
    // from read errors.
    let mut output_error = None;
    let result = export.samples.for_each(thread, &mut |chunk| {
        read += chunk.len() as u64;
        for part in chunk.chunks(GROUP) {
            group.extend_from_slice(part);
            if group.len() >= GROUP
                && let Err(error) = flush(&mut group)
            {
                output_error = Some(error);
                return Err(io::Error::other("the output failed"));
            }
        }
        Ok(())
    });
    if let Some(error) = output_error {
        return Err(error);
    }
    result.map_err(FormatError::Samples)?;
    if !group.is_empty() {
        flush(&mut group)?;
    }
    Ok(read)
}

fn write_group(
    samples: &[Sample],
    thread: u32,
    cpu: Option<u32>,
    mut group: SerializedRowGroupWriter<'_, Spool>,
) -> Result<(), ParquetError> {
    // Thread and CPU numbers are far below 2^31.
    let threads = vec![thread as i32; samples.len()];
    let cpus = vec![cpu.map_or(0, |cpu| cpu as i32); samples.len()];
    // A row has a value if its definition level is 1. Either all rows have one or none has.
    let levels = vec![i16::from(cpu.is_some()); samples.len()];
    let expected: Vec<i64> = samples.iter().map(|s| s.expected.0 as i64).collect();
    let latency: Vec<i64> = samples.iter().map(|s| s.latency.0).collect();
    let mut place = 0;
    while let Some(mut column) = group.next_column()? {
        match place {
            0 => column
                .typed::<Int32Type>()
                .write_batch(&threads, None, None)?,
            1 => {
                let values = if cpu.is_some() { &cpus[..] } else { &[] };
                let column = column.typed::<Int32Type>();
                column.write_batch(values, Some(&levels), None)?
            }
            2 => column
                .typed::<Int64Type>()
                .write_batch(&expected, None, None)?,
            _ => column
                .typed::<Int64Type>()
                .write_batch(&latency, None, None)?,
        };
        column.close()?;
        place += 1;
    }
    group.close()?;
    Ok(())
}

fn schema(time: &str) -> Result<TypePtr, ParquetError> {
    let column = |name, physical, repetition| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .build()
            .map(Arc::new)
    };
    let fields = vec![
        column("thread", Physical::INT32, Repetition::REQUIRED)?,
        column("cpu", Physical::INT32, Repetition::OPTIONAL)?,
        column(time, Physical::INT64, Repetition::REQUIRED)?,
        column("latency_ns", Physical::INT64, Repetition::REQUIRED)?,
    ];
    let root = Type::group_type_builder("samples").with_fields(fields);
    Ok(Arc::new(root.build()?))
}

fn properties(recording: &Recording) -> WriterProperties {
    let mut about = vec![
        ("punctual.recording", recording.id.to_string()),
        ("punctual.program", recording.probe.program.clone()),
        ("punctual.started", recording.started.to_string()),
    ];
    if let Some(name) = recording.host.hostname.get() {
        about.push(("punctual.hostname", name.clone()));
    }
    if let Some(kept) = recording.samples {
        about.push(("punctual.dropped_samples", kept.dropped.to_string()));
    }
    if let Some(step) = recording.sample_resolution() {
        about.push(("punctual.sample_resolution_ns", step.0.to_string()));
    }
    let about = about.into_iter().map(|(key, value)| KeyValue {
        key: key.to_owned(),
        value: Some(value),
    });
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(about.collect()));
    // Due times increase almost evenly, and latencies are close to each other, so their differences
    // are small numbers. A dictionary would not save anything.
    for name in ["expected_ns", "latency_ns"] {
        let path = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

/// Output buffer for the library, which requires a writer that can be sent to another thread. The
/// actual writer might not allow that. The buffer is drained after each row group.
#[derive(Clone, Default)]
struct Spool(Arc<Mutex<Vec<u8>>>);

impl Spool {
    fn drain(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut spool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spool.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The library fails only if its output fails, but this output is memory.
impl From<ParquetError> for FormatError {
    fn from(error: ParquetError) -> Self {
        Self::Output(io::Error::other(error))
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use punctual_model::{Nanos, Recording, Sample, SamplesKept, SignedNanos, testing};

    use crate::testing::CollectedSamples;
    use crate::{Export, ExportOptions, FormatError, NoSamples, SampleSource, format};

    fn parquet(recording: &Recording, samples: &dyn SampleSource) -> Result<Vec<u8>, FormatError> {
        let mut bytes = Vec::new();
        let export = Export {
            recording,
            samples,
            options: ExportOptions::default(),
        };
        (format("parquet")?.write)(&export, &mut bytes)?;
        Ok(bytes)
    }

    fn samples(count: i64) -> Vec<Sample> {
        (0..count)
            .map(|place| Sample {
                expected: Nanos(86_400_000_000_000 + place as u64 * 1_000_000),
                latency: SignedNanos(place * 7_919 % 100_000 - 12),
            })
            .collect()
    }

    fn recording_with(count: u64) -> Recording {
        let mut recording = testing::recording(2, 0);
        recording.threads[1].cpu = None;
        recording.samples = Some(SamplesKept {
            count,
            ..SamplesKept::default()
        });
        recording
    }

    #[test]
    fn it_reads_back() {
        // The first thread has more than one row group.
        let all = vec![samples(300_001), samples(3)];
        let recording = recording_with(300_004);
        let bytes = parquet(&recording, &CollectedSamples(all.clone())).unwrap();
        // Each sample takes up two differences of a few bits instead of two numbers of eight bytes.
        assert!(bytes.len() < 300_004 * 5, "{}", bytes.len());
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let metadata = reader.metadata().file_metadata();
        let about = metadata.key_value_metadata().unwrap();
        for (key, value) in [
            ("punctual.recording", recording.id.to_string()),
            (
                "punctual.dropped_samples",
                recording.samples.unwrap().dropped.to_string(),
            ),
        ] {
            assert!(
                about
                    .iter()
                    .any(|kv| kv.key == key && kv.value.as_ref() == Some(&value)),
                "{key}"
            );
        }
        let mut expected = (all.iter().zip(0..))
            .flat_map(|(samples, thread)| samples.iter().map(move |sample| (thread, sample)));
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let (thread, sample) = expected.next().unwrap();
            assert_eq!(row.get_int(0).unwrap(), thread);
            assert_eq!(row.get_int(1).ok(), (thread == 0).then_some(0));
            assert_eq!(row.get_long(2).unwrap() as u64, sample.expected.0);
            assert_eq!(row.get_long(3).unwrap(), sample.latency.0);
        }
        assert_eq!(expected.next(), None);
    }

    #[test]
    fn missing_samples_are_an_error() {
        let recording = testing::recording(1, 1);
        let error = parquet(&recording, &NoSamples).unwrap_err().to_string();
        assert!(error.contains("--samples"), "{error}");
        let error = parquet(&recording_with(9), &CollectedSamples(vec![samples(2)])).unwrap_err();
        assert!(matches!(
            error,
            FormatError::SamplesMissing {
                kept: 9,
                read: 2,
                ..
            }
        ));
    }
}
