//! COPY, read without a planner.

use super::token_reader::TokenReader;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// A COPY command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyCommand {
    pub(crate) source: CopySource,
    /// Whether rows come from the client.
    pub(crate) from_stdin: bool,
    pub(crate) format: CopyFormat,
    /// Whether the rows are of a table that this transaction has made or truncated (FREEZE).
    pub(crate) freeze: bool,
}

/// The rows of a COPY command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopySource {
    /// A table, and its columns if they are named.
    Table {
        schema: Option<String>,
        name: String,
        columns: Vec<String>,
    },
    /// A query, as its text.
    Query(String),
}

/// The form of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyFormat {
    pub(crate) csv: bool,
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) header: bool,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
}

/// The rest of a COPY command.
///
/// # Errors
/// 42601 if it is none; 0A000 for files and programs of the server.
pub(crate) fn parse_copy(reader: &mut TokenReader<'_>) -> SqlResult<CopyCommand> {
    let source = if reader.takes_symbol("(") {
        CopySource::Query(reader.in_brackets()?.to_owned())
    } else {
        let (schema, name) = reader.qualified_name()?;
        let mut columns = Vec::new();
        if reader.takes_symbol("(") {
            columns.push(reader.name()?);
            while reader.takes_symbol(",") {
                columns.push(reader.name()?);
            }
            if !reader.takes_symbol(")") {
                return Err(reader.unexpected());
            }
        }
        CopySource::Table {
            schema,
            name,
            columns,
        }
    };
    let from_stdin = match reader.takes_one(&["from", "to"]) {
        Some("from") if reader.takes("stdin") => true,
        Some("to") if reader.takes("stdout") => false,
        Some(_) if reader.is_at_end() => return Err(reader.unexpected()),
        Some(_) => {
            return Err(SqlError::unsupported(
                "COPY with a file or program of the server",
            ));
        }
        None => return Err(reader.unexpected()),
    };
    if from_stdin && matches!(source, CopySource::Query(_)) {
        return Err(reader.unexpected());
    }
    let mut options = Options::default();
    reader.takes("with");
    if reader.takes_symbol("(") {
        loop {
            options.read(reader, true)?;
            if !reader.takes_symbol(",") {
                break;
            }
        }
        if !reader.takes_symbol(")") {
            return Err(reader.unexpected());
        }
    } else {
        while !reader.is_at_end() {
            options.read(reader, false)?;
        }
    }
    if reader.takes("where") {
        return Err(SqlError::unsupported("COPY … WHERE"));
    }
    let freeze = options.freeze;
    Ok(CopyCommand {
        source,
        from_stdin,
        format: options.format()?,
        freeze,
    })
}

#[derive(Default)]
struct Options {
    csv: bool,
    delimiter: Option<String>,
    null: Option<String>,
    header: bool,
    quote: Option<String>,
    escape: Option<String>,
    freeze: bool,
}

impl Options {
    /// One option. In brackets, its value follows; otherwise it is the older form.
    fn read(&mut self, reader: &mut TokenReader<'_>, in_brackets: bool) -> SqlResult<()> {
        let names = [
            "format",
            "freeze",
            "delimiter",
            "delimiters",
            "null",
            "header",
            "quote",
            "escape",
            "encoding",
            "csv",
            "binary",
            "oids",
            "force_quote",
            "force_not_null",
            "force_null",
            "force",
            "on_error",
        ];
        let Some(name) = reader.takes_one(&names) else {
            return Err(reader.unexpected());
        };
        let flag = |reader: &mut TokenReader<'_>| {
            let value = if in_brackets {
                reader
                    .takes_one(&["true", "false", "on", "off", "match"])
                    .map(str::to_owned)
            } else {
                None
            };
            value.is_none_or(|value| matches!(value.as_str(), "true" | "on" | "match"))
        };
        match name {
            "format" => match reader.name()?.as_str() {
                "text" => self.csv = false,
                "csv" => self.csv = true,
                "binary" => return Err(SqlError::unsupported("COPY in binary format")),
                other => {
                    return Err(SqlError::new(
                        sqlstate::INVALID_PARAMETER_VALUE,
                        format!("COPY format \"{other}\" not recognized"),
                    ));
                }
            },
            "csv" => self.csv = true,
            "freeze" => self.freeze = flag(reader),
            "header" => self.header = flag(reader),
            "delimiter" | "delimiters" => {
                reader.takes("as");
                self.delimiter = Some(reader.value()?);
            }
            "null" => {
                reader.takes("as");
                self.null = Some(reader.value()?);
            }
            "quote" => {
                reader.takes("as");
                self.quote = Some(reader.value()?);
            }
            "escape" => {
                reader.takes("as");
                self.escape = Some(reader.value()?);
            }
            "encoding" => {
                let encoding = reader.value()?.to_ascii_lowercase().replace('-', "");
                if encoding != "utf8" {
                    return Err(SqlError::unsupported(format!(
                        "COPY encoding \"{encoding}\""
                    )));
                }
            }
            other => return Err(SqlError::unsupported(format!("COPY option {other}"))),
        }
        Ok(())
    }

    fn format(self) -> SqlResult<CopyFormat> {
        let byte = |text: Option<String>, default: u8, what: &str| match text
            .as_deref()
            .map(str::as_bytes)
        {
            None => Ok(default),
            Some([byte]) if byte.is_ascii() && !matches!(*byte, b'\n' | b'\r') => Ok(*byte),
            Some(_) => Err(SqlError::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("COPY {what} must be a single one-byte character"),
            )),
        };
        let quote = byte(self.quote, b'"', "quote")?;
        Ok(CopyFormat {
            csv: self.csv,
            delimiter: byte(
                self.delimiter,
                if self.csv { b',' } else { b'\t' },
                "delimiter",
            )?,
            null: self.null.unwrap_or_else(|| {
                if self.csv {
                    String::new()
                } else {
                    "\\N".to_owned()
                }
            }),
            header: self.header,
            quote,
            escape: byte(self.escape, quote, "escape")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Utility, parse_utility};
    use super::*;

    fn parsed(text: &str) -> CopyCommand {
        match parse_utility(text).unwrap() {
            Some(Utility::Copy(copy)) => *copy,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn copy_is_read_as_pgbench_writes_it() {
        let copy = parsed("copy pgbench_accounts from stdin with (freeze on)");
        assert!(copy.from_stdin && copy.freeze && !copy.format.csv);
        assert_eq!(
            (copy.format.delimiter, copy.format.null.as_str()),
            (b'\t', "\\N")
        );
    }

    #[test]
    fn queries_and_csv_have_their_options() {
        let copy = parsed("COPY (SELECT (1)) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';')");
        assert_eq!(copy.source, CopySource::Query("SELECT (1)".to_owned()));
        assert!(copy.format.csv && copy.format.header && copy.format.delimiter == b';');
        let older = parsed("COPY s.t (a, \"B\") TO STDOUT CSV NULL 'x'");
        assert!(older.format.csv && older.format.null == "x");
        assert!(parse_utility("COPY t FROM '/etc/passwd'").is_err());
    }
}
