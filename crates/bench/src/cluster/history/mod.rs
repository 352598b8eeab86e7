//! The history of all requests and answers of the clients, with times of one clock: for checkers,
//! in this program and in others.
//!
//! The file consists of lines of JSON, in the order in which the operations ended:
//! ```text
//! {"history":{"version":1,"registers":32,…}}
//! {"client":0,"start_ns":10,"end_ns":25,"submit":[{"if":[[3,0]],"set":[3],"value":4294967297}],"outcomes":["Done"]}
//! {"client":1,"start_ns":12,"submit":[…]}                                   no end: its outcome is unknown
//! {"client":2,"start_ns":30,"end_ns":31,"read":[3,5],"values":[4294967297,0],"lsn":17}
//! {"at_ns":28,"fault":"kill","nodes":[1]}
//! ```
//! Each command of a `submit` is a transaction. `registers.rs` defines the values.

mod refusals;
mod strict_serializability;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use namiki_client::protocol::Outcome;
use serde::Serialize;

use super::fault_context::FaultEvent;
use super::registers::RegisterWrite;
use crate::error::BenchError;

pub(super) use strict_serializability::check;

const VERSION: u32 = 1;

/// An operation of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Operation {
    pub(super) client: u32,
    pub(super) start_ns: u64,
    /// `None`: the client has given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) end_ns: Option<u64>,
    #[serde(flatten)]
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum What {
    Submit {
        submit: Vec<RegisterWrite>,
        /// `None`: the outcome is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcomes: Option<Vec<Outcome>>,
    },
    Read {
        /// The rows read.
        read: Vec<u64>,
        values: Vec<u64>,
        /// The state that was read: the one after this entry of the log.
        lsn: u64,
    },
}

/// The first line of a file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct About {
    pub(super) registers: u64,
    pub(super) nodes: u16,
    pub(super) clients: u32,
    pub(super) fault: String,
    pub(super) seed: u64,
}

/// All operations of a run.
#[derive(Debug)]
pub(super) struct Recorder {
    begin: Instant,
    pub(super) operations: Vec<Operation>,
    numbers: u32,
}

impl Recorder {
    pub(super) fn new(begin: Instant) -> Self {
        Self {
            begin,
            operations: Vec::new(),
            numbers: 0,
        }
    }

    /// Nanoseconds since the start.
    pub(super) fn ns(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.begin);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The number of the next command.
    pub(super) fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Records an operation that was answered, or that the client has given up on (no end).
    pub(super) fn record(&mut self, client: u32, start: Instant, end: Option<Instant>, what: What) {
        self.operations.push(Operation {
            client,
            start_ns: self.ns(start),
            end_ns: end.map(|end| self.ns(end)),
            what,
        });
    }

    /// Writes the history to a file.
    pub(super) fn write(
        &self,
        path: &Path,
        about: &About,
        faults: &[FaultEvent],
    ) -> Result<(), BenchError> {
        let written = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(path)?);
            let mut line = |value: &serde_json::Value| writeln!(file, "{value}");
            let mut about = serde_json::to_value(about)?;
            about["version"] = VERSION.into();
            line(&serde_json::json!({ "history": about }))?;
            for operation in &self.operations {
                line(&serde_json::to_value(operation)?)?;
            }
            for fault in faults {
                let at_ns = self.ns(fault.at);
                let (what, nodes) = (&fault.what, &fault.nodes);
                line(&serde_json::json!({ "at_ns": at_ns, "fault": what, "nodes": nodes }))?;
            }
            file.flush()
        };
        written().map_err(BenchError::file("write", path))
    }
}
