//! A history as a file of JSON lines, so that a failing run can be kept, mailed and checked again.
//!
//! ```text
//! {"history":{"version":1,"note":"TT(ELR)+PWAL(16), seed 42"}}
//! {"key":{"table":1,"bytes":"616c696365"}}            the first key is number 0
//! {"initial":{"key":0,"stamp":3}}
//! {"transaction":{"id":12,"stamp":50,"started":100,"ended":120,"reads":[[0,41]],"writes":[0]}}
//! ```
//! A key's line stands before the first line that uses its number.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::hex::{from_hex, to_hex};
use super::transactions::{History, KeyId, Transaction, VersionStamp};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    History {
        version: u32,
        note: String,
    },
    Key {
        table: u32,
        bytes: String,
    },
    Initial {
        key: u32,
        stamp: VersionStamp,
    },
    Transaction {
        id: u64,
        stamp: VersionStamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended: Option<u64>,
        reads: Vec<(u32, VersionStamp)>,
        writes: Vec<u32>,
    },
}

/// The reason for which a history could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryFileError {
    /// The file or stream failed.
    #[error("cannot read or write the history")]
    Io(#[from] io::Error),
    /// A line does not have the format.
    #[error("line {line} of the history is not one of ours")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The parser's error.
        #[source]
        source: serde_json::Error,
    },
    /// The lines are well-formed, but contradict each other.
    #[error("line {line} of the history {problem}")]
    Content {
        /// Counted from 1.
        line: usize,
        /// The problem, as the end of the sentence.
        problem: &'static str,
    },
}

impl History {
    /// Writes the history. `note` records its origin: the seed, the spec, the test.
    ///
    /// # Errors
    /// [`HistoryFileError::Io`] if `to` fails.
    pub fn dump(&self, to: &mut dyn Write, note: &str) -> Result<(), HistoryFileError> {
        let mut put = |line: &Line| -> Result<(), HistoryFileError> {
            serde_json::to_writer(&mut *to, line).map_err(io::Error::from)?;
            Ok(to.write_all(b"\n")?)
        };
        put(&Line::History {
            version: VERSION,
            note: note.to_owned(),
        })?;
        for (table, bytes) in &self.names {
            put(&Line::Key {
                table: *table,
                bytes: to_hex(bytes),
            })?;
        }
        for &(KeyId(key), stamp) in &self.initial {
            put(&Line::Initial { key, stamp })?;
        }
        for transaction in &self.transactions {
            let Transaction {
                id,
                started,
                ended,
                stamp,
                ref reads,
                ref writes,
            } = *transaction;
            let reads = reads.iter().map(|(key, stamp)| (key.0, *stamp)).collect();
            let writes = writes.iter().map(|key| key.0).collect();
            put(&Line::Transaction {
                id,
                stamp,
                started,
                ended,
                reads,
                writes,
            })?;
        }
        Ok(to.flush()?)
    }

    /// Reads back what [`dump`](Self::dump) wrote: the history and its note.
    ///
    /// # Errors
    /// [`HistoryFileError`] names the line that is wrong.
    pub fn load(from: impl BufRead) -> Result<(Self, String), HistoryFileError> {
        let mut history = Self::new();
        let mut note = None;
        for (index, text) in from.lines().enumerate() {
            let line = index + 1;
            let parsed = serde_json::from_str(&text?)
                .map_err(|source| HistoryFileError::Line { line, source })?;
            let wrong = |problem| HistoryFileError::Content { line, problem };
            let keys = history.names.len() as u32;
            let known = |key: u32| {
                let problem = "uses a key that no earlier line names";
                if key < keys {
                    Ok(KeyId(key))
                } else {
                    Err(wrong(problem))
                }
            };
            match parsed {
                Line::History {
                    version: VERSION,
                    note: text,
                } if index == 0 => note = Some(text),
                Line::History { .. } => return Err(wrong("is a header of another version")),
                _ if note.is_none() => return Err(wrong("stands where the header should be")),
                Line::Key { table, bytes } => {
                    let bytes = from_hex(&bytes).ok_or(wrong("has a key that is not hex"))?;
                    if history.key(table, &bytes).0 != keys {
                        return Err(wrong("names a key for the second time"));
                    }
                }
                Line::Initial { key, stamp } => history.push_initial(known(key)?, stamp),
                Line::Transaction {
                    id,
                    stamp,
                    started,
                    ended,
                    reads,
                    writes,
                } => {
                    let reads = reads.into_iter().map(|(key, at)| Ok((known(key)?, at)));
                    let reads = reads.collect::<Result<_, HistoryFileError>>()?;
                    let writes = writes.into_iter().map(known).collect::<Result<_, _>>()?;
                    history.push(Transaction {
                        id,
                        started,
                        ended,
                        stamp,
                        reads,
                        writes,
                    });
                }
            }
        }
        let empty = HistoryFileError::Content {
            line: 1,
            problem: "is missing",
        };
        Ok((history, note.ok_or(empty)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<(History, String), String> {
        History::load(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_dumped_is_loaded() {
        let mut history = History::new();
        let (x, y) = (history.key(1, b"x"), history.key(9, &[0, 255, 16]));
        history.push_initial(x, 3);
        history.push(Transaction::new(1, 10).read(x, 3).read(y, 0).write(y));
        history.push(Transaction::new(2, 11).read(y, 10).during(5, 8));
        let mut file = Vec::new();
        history.dump(&mut file, "seed 42").unwrap();

        let (mut loaded, note) = History::load(&file[..]).unwrap();
        assert_eq!(note, "seed 42");
        assert_eq!(loaded.transactions, history.transactions);
        assert_eq!(loaded.initial, history.initial);
        assert_eq!(loaded.names, history.names);
        assert_eq!(loaded.key(9, &[0, 255, 16]), y);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let header = r#"{"history":{"version":1,"note":""}}"#;
        let at = |line: &str| load(&format!("{header}\n{line}\n")).unwrap_err();
        assert_eq!(at("{}"), "line 2 of the history is not one of ours");
        assert!(at(r#"{"initial":{"key":0,"stamp":1}}"#).contains("line 2 of the history uses"));
        assert!(at(r#"{"key":{"table":1,"bytes":"abc"}}"#).contains("not hex"));
        assert!(at(header).contains("header"));
        assert!(
            load(r#"{"history":{"version":2,"note":""}}"#)
                .unwrap_err()
                .contains("version")
        );
        assert!(
            load(r#"{"key":{"table":1,"bytes":""}}"#)
                .unwrap_err()
                .contains("header")
        );
        assert!(load("").unwrap_err().contains("line 1"));
    }
}
