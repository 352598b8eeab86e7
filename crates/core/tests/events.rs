//! The events of a database in the crate `tracing`.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use namiki::disk::MemoryDisk;
use namiki::{Conflict, Database, Error};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps each event as a line: level, message, fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0 = format!("{} {value:?}", self.0),
            name => self.0 = format!("{} {name}={value:?}", self.0),
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "namiki"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn rare_events_are_told_with_their_tables() {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let disk = Arc::new(MemoryDisk::new());
        let builder = Database::builder().disk(disk);
        let builder = builder.attempts_max(NonZeroU32::MIN);
        let db = builder.open("/db").unwrap();
        let table = db.table::<u64, u64>("a").unwrap();
        db.table::<u64, u64>("a").unwrap();
        db.transact(|tx| tx.put(&table, &1, &1)).unwrap();
        db.clear_table("a").unwrap();
        db.rename_table("a", "b").unwrap();
        db.drop_table("b").unwrap();
        let given_up = db.transact(|_| Err::<(), _>(Error::Conflict(Conflict::ReadChanged)));
        assert!(matches!(given_up, Err(Error::TooManyConflicts { .. })));
        db.close().unwrap();
        db.close().unwrap();
    });
    let told = lines.0.lock().unwrap();
    let expected = [
        ("INFO", "database opened"),
        ("INFO", "table created table=a"),
        ("INFO", "table cleared table=a"),
        ("INFO", "table renamed table=a to=b"),
        ("INFO", "table dropped table=b"),
        ("WARN", "a transaction gave up after conflicts attempts=1"),
        ("INFO", "database closed dir=/db"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (line, (level, text)) in told.iter().zip(expected) {
        assert!(
            line.starts_with(level) && line.contains(text),
            "{line}: {text}"
        );
    }
}
