//! A table as a Parquet file, with columns of strings, numbers and lists of numbers.

use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

/// A column, with one value per row.
pub(crate) enum Column {
    Texts(Vec<Option<String>>),
    Numbers(Vec<Option<i64>>),
    Lists(Vec<Vec<i64>>),
}

/// Rows of a table.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<(&'static str, Column)>,
}

/// A file that is written in row groups. Only the current group is held in memory uncompressed.
pub(crate) struct File(SerializedFileWriter<Vec<u8>>);

impl File {
    /// Creates a file for tables with the same columns as `table`.
    pub(crate) fn from_table(table: &Table) -> Result<Self, ParquetError> {
        let fields = table
            .columns
            .iter()
            .map(|(name, column)| field(name, column));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let root = Type::group_type_builder(table.name).with_fields(fields);
        // Dictionaries use memory and save little in files of one day.
        let properties = WriterProperties::builder()
            .set_compression(Compression::LZ4_RAW)
            .set_dictionary_enabled(false)
            .build();
        let schema = Arc::new(root.build()?);
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map(Self)
    }

    /// Appends the rows of a table.
    pub(crate) fn add(&mut self, table: &Table) -> Result<(), ParquetError> {
        let mut group = self.0.next_row_group()?;
        for (_, column) in &table.columns {
            if let Some(mut writer) = group.next_column()? {
                write(column, &mut writer)?;
                writer.close()?;
            }
        }
        group.close().map(drop)
    }

    /// Finishes the file and returns its bytes.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, ParquetError> {
        self.0.into_inner()
    }
}

fn field(name: &str, column: &Column) -> Result<TypePtr, ParquetError> {
    let primitive = |name, physical, repetition, converted| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_converted_type(converted)
            .build()
            .map(Arc::new)
    };
    let (none, optional) = (ConvertedType::NONE, Repetition::OPTIONAL);
    match column {
        Column::Texts(_) => primitive(name, Physical::BYTE_ARRAY, optional, ConvertedType::UTF8),
        Column::Numbers(_) => primitive(name, Physical::INT64, optional, none),
        // The Parquet format represents a list by three levels (LogicalTypes.md).
        Column::Lists(_) => {
            let element = primitive("element", Physical::INT64, Repetition::REQUIRED, none)?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![element])
                .build()?;
            let outer = Type::group_type_builder(name)
                .with_repetition(Repetition::REQUIRED)
                .with_converted_type(ConvertedType::LIST)
                .with_fields(vec![Arc::new(list)]);
            outer.build().map(Arc::new)
        }
    }
}

fn write(column: &Column, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
    match column {
        Column::Texts(texts) => {
            let levels: Vec<i16> = texts.iter().map(|text| text.is_some().into()).collect();
            let values = texts.iter().flatten();
            let values: Vec<ByteArray> = values.map(|text| text.as_str().into()).collect();
            let column = writer.typed::<ByteArrayType>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Column::Numbers(numbers) => {
            let levels: Vec<i16> = numbers
                .iter()
                .map(|number| number.is_some().into())
                .collect();
            let values: Vec<i64> = numbers.iter().copied().flatten().collect();
            let column = writer.typed::<Int64Type>();
            column.write_batch(&values, Some(&levels), None)?;
        }
        Column::Lists(lists) => {
            let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
            for list in lists {
                if list.is_empty() {
                    defined.push(0);
                    repeated.push(0);
                }
                for (place, value) in list.iter().enumerate() {
                    values.push(*value);
                    defined.push(1);
                    repeated.push(i16::from(place > 0));
                }
            }
            let column = writer.typed::<Int64Type>();
            column.write_batch(&values, Some(&defined), Some(&repeated))?;
        }
    }
    Ok(())
}
