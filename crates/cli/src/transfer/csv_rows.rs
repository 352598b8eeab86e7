//! CSV: a column for the key and one for the value, or for each part of a tuple.
//!
//! ```text
//! key.1:string,key.2:u64,value:u32
//! alice,1,2026
//! ```
//! The first line has the types. Texts are unchanged in their cells; everything else has the form
//! of the command line (`typed/text.rs`). CSV cannot represent bytes that are not a value of their
//! type: such a table is exported as JSON lines. A file that was cut off at the end of a line
//! cannot be distinguished from a complete one, unlike JSON lines.

use std::io::{self, Read, Write};

use csv::{Reader, ReaderBuilder, StringRecord, Writer};
use namiki::TableInfo;

use super::csv_quotes::{Found, QuoteCheck};
use super::row_file::{FileRow, Header, ReadError, RowReader, RowWriter, Target};
use crate::failure::Failure;
use crate::typed::text::from_text;
use crate::typed::{Datum, TableTypes, Type, key_bytes, read_key, read_value, value_bytes};

/// Suffix of the name of a program's own key type with eight-byte keys.
const EIGHT_BYTES: &str = " (8 bytes)";

/// The parts that have a column each.
fn columns(of: &Type) -> &[Type] {
    match of {
        Type::Tuple(parts) if of.is_known() => parts,
        whole => std::slice::from_ref(whole),
    }
}

/// `key:u64`, or `key.1:string`, `key.2:u64`.
fn names(what: &str, of: &Type, suffix: &str) -> Vec<String> {
    match columns(of) {
        [whole] => vec![format!("{what}:{whole}{suffix}")],
        parts => (1..)
            .zip(parts)
            .map(|(number, part)| format!("{what}.{number}:{part}"))
            .collect(),
    }
}

fn cell(datum: &Datum) -> String {
    match datum {
        Datum::Text(text) => text.clone(),
        Datum::Char(char) => char.to_string(),
        other => other.to_string(),
    }
}

/// Writes a table.
pub(crate) struct CsvWriter<W: Write> {
    output: Writer<W>,
    table: String,
    to: Target,
    types: TableTypes,
    cells: Vec<String>,
}

impl<W: Write> CsvWriter<W> {
    pub(crate) fn new(table: &TableInfo, to: Target, output: W) -> Result<Self, Failure> {
        let types = TableTypes::in_files(table);
        let suffix = if table.fixed_keys && !types.key.is_known() {
            EIGHT_BYTES
        } else {
            ""
        };
        let mut names_of_all = names("key", &types.key, suffix);
        names_of_all.extend(names("value", &types.value, ""));
        let mut writer = Self {
            output: Writer::from_writer(output),
            table: table.name.clone(),
            to,
            types,
            cells: names_of_all,
        };
        writer.record()?;
        Ok(writer)
    }

    fn record(&mut self) -> Result<(), Failure> {
        let written = self.output.write_record(&self.cells);
        self.cells.clear();
        written.map_err(|error| {
            self.to.failed(match error.into_kind() {
                // Its kind tells that the reader is gone.
                csv::ErrorKind::Io(error) => error,
                other => io::Error::other(format!("{other:?}")),
            })
        })
    }

    fn add(&mut self, what: &str, of: &Type, datum: Datum, key: &[u8]) -> Result<(), Failure> {
        match (of, datum) {
            (of, Datum::Raw(_)) if of.is_known() => Err(Failure::NoCsv {
                table: self.table.clone(),
                key: read_key(&self.types.key, key).to_string(),
                what: what.to_owned(),
                of: of.to_string(),
            }),
            (Type::Tuple(_), Datum::Tuple(parts)) => {
                self.cells.extend(parts.iter().map(cell));
                Ok(())
            }
            (_, datum) => {
                self.cells.push(cell(&datum));
                Ok(())
            }
        }
    }
}

impl<W: Write> RowWriter for CsvWriter<W> {
    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let TableTypes {
            key: of_key,
            value: of_value,
        } = self.types.clone();
        self.add("key", &of_key, read_key(&of_key, key), key)?;
        self.add("value", &of_value, read_value(&of_value, value), key)?;
        self.record()
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.output.flush().map_err(|error| self.to.failed(error))
    }
}

/// Reads a table.
pub(crate) struct CsvReader<R> {
    input: Reader<QuoteCheck<R>>,
    /// The lines of rows, and errors of quotation.
    rows: Found,
    header: Header,
    types: TableTypes,
    record: StringRecord,
}

impl<R: Read> CsvReader<R> {
    pub(crate) fn new(input: R) -> Result<Self, ReadError> {
        let input = QuoteCheck::new(input);
        let rows = input.found();
        let mut input = ReaderBuilder::new().has_headers(false).from_reader(input);
        let mut record = StringRecord::new();
        let Some(line) = read(&mut input, &rows, &mut record)? else {
            return Err(ReadError::bad(1, "the file is empty"));
        };
        let header = header(&record).map_err(|why| ReadError::bad(line, why))?;
        Ok(Self {
            input,
            rows,
            types: header.types(),
            header,
            record,
        })
    }
}

fn header(record: &StringRecord) -> Result<Header, String> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut eight_byte_keys = false;
    for name in record {
        let (name, of) = name.split_once(':').ok_or_else(|| {
            format!(
                "its columns must have names like \"key:u64\" and \"value:string\", not {name:?}"
            )
        })?;
        let (what, number) = match name.split_once('.') {
            Some((what, number)) => (what, Some(number)),
            None => (name, None),
        };
        let parts = match what {
            "key" if value.is_empty() => &mut key,
            "value" => &mut value,
            _ => {
                return Err(format!(
                    "its columns must be those of the key and then those of the value, not {name:?}"
                ));
            }
        };
        let is_next = match number {
            None => parts.is_empty(),
            Some(number) => number.parse() == Ok(parts.len() + 1),
        };
        if !is_next {
            return Err(format!("column {name:?} is out of order"));
        }
        let eight = of.strip_suffix(EIGHT_BYTES);
        eight_byte_keys |= eight.is_some();
        parts.push((number.is_some(), eight.unwrap_or(of).to_owned()));
    }
    let type_name = |parts: Vec<(bool, String)>, what: &str| match &parts[..] {
        [] => Err(format!("it has no column of the {what}")),
        [(false, whole)] => Ok(whole.clone()),
        parts if parts.iter().all(|(is_part, _)| *is_part) => {
            let parts: Vec<&str> = parts.iter().map(|(_, of)| &**of).collect();
            Ok(format!("({})", parts.join(", ")))
        }
        _ => Err(format!(
            "the columns of the {what} are not the parts of a tuple"
        )),
    };
    let (key_type, value_type) = (type_name(key, "key")?, type_name(value, "value")?);
    Ok(Header {
        eight_byte_keys: eight_byte_keys || Type::parse(&key_type).has_eight_byte_keys(),
        key_type,
        value_type,
        room_bytes: None,
        layouts: None,
        schemas: None,
    })
}

/// Reads the next record, and returns the line on which it begins; `None` at the end. Fails if a
/// cell is badly quoted: its contents would be misread, possibly up to the end of the file.
fn read<R: Read>(
    input: &mut Reader<QuoteCheck<R>>,
    rows: &Found,
    record: &mut StringRecord,
) -> Result<Option<u64>, ReadError> {
    let found = input.read_record(record);
    if let Err(error) = &found
        && matches!(error.kind(), csv::ErrorKind::Io(_))
    {
        return found.map(|_| None).map_err(|error| refused(error, 1));
    }
    let taken = rows.borrow_mut().take();
    let line = taken.map_err(|(line, why)| ReadError::bad(line, why))?;
    match found {
        Ok(true) => Ok(Some(line.unwrap_or(1))),
        Ok(false) => Ok(None),
        Err(error) => Err(refused(error, line.unwrap_or(1))),
    }
}

fn refused(error: csv::Error, line: u64) -> ReadError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ReadError::Io(error),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => ReadError::bad(
            line,
            format!("it has {len} cells, and the first line {expected_len}"),
        ),
        csv::ErrorKind::Utf8 { .. } => ReadError::bad(line, "it is not valid UTF-8"),
        other => ReadError::bad(line, format!("{other:?}")),
    }
}

impl<R: Read> RowReader for CsvReader<R> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_row(&mut self) -> Result<Option<FileRow>, ReadError> {
        let Some(line) = read(&mut self.input, &self.rows, &mut self.record)? else {
            return Ok(None);
        };
        let bad = |why: String| ReadError::bad(line, why);
        let mut cells = self.record.iter();
        let TableTypes { key, value } = &self.types;
        let key_read = datum(key, &mut cells).map_err(|why| bad(format!("the key {why}")))?;
        let value_read = datum(value, &mut cells).map_err(|why| bad(format!("the value {why}")))?;
        let no_row = || bad("it is not a row of its types".to_owned());
        Ok(Some(FileRow {
            line,
            key: key_bytes(key, &key_read).ok_or_else(no_row)?,
            value: value_bytes(value, &value_read).ok_or_else(no_row)?,
        }))
    }
}

fn datum<'c>(of: &Type, cells: &mut impl Iterator<Item = &'c str>) -> Result<Datum, String> {
    let mut one = |of: &Type| {
        let cell = cells.next().unwrap_or_default();
        match of {
            // Unchanged, whatever they contain.
            Type::Text => Ok(Datum::Text(cell.to_owned())),
            Type::Char => {
                let mut chars = cell.chars();
                match (chars.next(), chars.next()) {
                    (Some(char), None) => Ok(Datum::Char(char)),
                    _ => Err(format!("{cell:?} is not a char: it must be one character")),
                }
            }
            of => from_text(of, cell).map_err(|error| error.to_string()),
        }
    };
    match of {
        Type::Tuple(parts) if of.is_known() => {
            let parts = parts.iter().map(one);
            parts.collect::<Result<_, _>>().map(Datum::Tuple)
        }
        whole => one(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_the_types() {
        let read = |line: &str| {
            let cells: Vec<&str> = line.split(';').collect();
            header(&StringRecord::from(cells)).map(|it| (it.key_type, it.value_type))
        };
        let types = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(read("key:u64;value:string"), types("u64", "string"));
        assert_eq!(
            read("key.1:string;key.2:(u8, u8);value:i8"),
            types("(string, (u8, u8))", "i8")
        );
        for wrong in [
            "id:u64;value:string",
            "value:string;key:u64",
            "key:u64",
            "key.2:u64;value:u64",
            "key:u64;key:u64;value:u64",
            "key;value",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let cells = vec!["key:Id#0123456789abcdef (8 bytes)", "value:u64"];
        let found = header(&StringRecord::from(cells)).unwrap();
        assert_eq!(found.key_type, "Id#0123456789abcdef");
        assert!(found.eight_byte_keys);
    }
}
