//! A client without a socket.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use namiki::Database;
use namiki::disk::MemoryDisk;

use crate::{
    Connection, Engine, EngineOptions, Portal, Progress, RowSink, Scope, SqlError, SqlResult,
    TransactionStatus,
};

/// An engine over a new database in memory, which has a log.
pub(super) struct Fixture {
    pub(super) engine: Engine,
    pub(super) disk: Arc<MemoryDisk>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    /// With these options.
    pub(super) fn with(options: EngineOptions) -> Self {
        let disk = Arc::new(MemoryDisk::new());
        let engine = open(&disk, options);
        Self { engine, disk }
    }

    /// Waits until nothing runs on the second pool. No other client is there.
    pub(super) fn wait_for_pool(&self) {
        let begun = Instant::now();
        while Arc::strong_count(&self.engine.shared) > 1 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it runs on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A client.
    pub(super) fn client(&self) -> Client {
        Client::new(&self.engine)
    }

    /// Closes the database and opens it again.
    pub(super) fn reopened(self) -> Self {
        let disk = Arc::clone(&self.disk);
        let db = self.engine.database().clone();
        drop(self);
        db.close().unwrap();
        drop(db);
        let engine = open(&disk, EngineOptions::default());
        Self { engine, disk }
    }
}

fn open(disk: &Arc<MemoryDisk>, options: EngineOptions) -> Engine {
    let db = Database::builder()
        .disk(Arc::clone(disk) as Arc<dyn namiki::disk::Disk>)
        .open("/memory")
        .unwrap();
    Engine::open(db, options).unwrap()
}

/// What a statement answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Option<String>>>,
    pub(super) tag: String,
}

impl Answer {
    /// The rows, with values separated by bars, and nulls as a dash.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |row: &Vec<Option<String>>| {
            let values: Vec<&str> = row.iter().map(|it| it.as_deref().unwrap_or("-")).collect();
            values.join("|")
        };
        self.rows.iter().map(line).collect()
    }
}

/// Gathers rows.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Vec<Option<Vec<u8>>>>,
    pub(super) lines: Vec<u8>,
    value: Vec<u8>,
    full_at: Option<usize>,
}

impl Rows {
    /// A sink that is full after so many rows.
    pub(super) fn full_at(rows: usize) -> Self {
        Self {
            full_at: Some(rows),
            ..Self::default()
        }
    }
}

impl RowSink for Rows {
    fn begin_row(&mut self, values: usize) {
        self.rows.push(Vec::with_capacity(values));
    }

    fn null(&mut self) {
        self.rows.last_mut().unwrap().push(None);
    }

    fn begin_value(&mut self) -> &mut Vec<u8> {
        self.value.clear();
        &mut self.value
    }

    fn end_value(&mut self) {
        let value = std::mem::take(&mut self.value);
        self.rows.last_mut().unwrap().push(Some(value));
    }

    fn end_row(&mut self) {}

    fn copy_line(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
    }

    fn is_full(&self) -> bool {
        self.full_at.is_some_and(|rows| self.rows.len() >= rows)
    }

    fn mark(&self) -> usize {
        self.rows.len()
    }

    fn rewind(&mut self, mark: usize) -> bool {
        self.rows.truncate(mark);
        true
    }
}

/// A connection, and the runtime that polls it.
pub(super) struct Client {
    pub(super) connection: Connection,
    pub(super) runtime: tokio::runtime::Runtime,
}

impl Client {
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            connection: engine.connect("tester", "test", 0).unwrap(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        }
    }

    /// Runs a message of the simple protocol as a server does; returns the answer of its last statement.
    pub(super) fn query(&mut self, text: &str) -> SqlResult<Answer> {
        let Self {
            connection,
            runtime,
        } = self;
        runtime.block_on(async {
            let texts: Vec<String> = connection
                .split(text)?
                .into_iter()
                .map(str::to_owned)
                .collect();
            loop {
                let error = match run_all(connection, &texts).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                if let Err(error) = connection.prepare_repeat(error).await {
                    connection.failed();
                    return Err(error);
                }
            }
        })
    }

    /// Begins a statement, and goes away; returns whether the statement was waiting for something.
    pub(super) fn begin_and_go(mut self, text: &str) -> bool {
        let scope = match self.connection.status() {
            TransactionStatus::Idle => Scope::Alone,
            _ => Scope::Part,
        };
        let prepared = self.connection.prepare_simple(text);
        let mut portal = self.runtime.block_on(prepared).unwrap();
        let mut sink = Rows::default();
        let running = self.connection.execute(&mut portal, scope, 0, &mut sink);
        let mut context = Context::from_waker(Waker::noop());
        pin!(running).as_mut().poll(&mut context).is_pending()
    }

    /// The lines of an answer; panics at an error.
    pub(super) fn lines(&mut self, text: &str) -> Vec<String> {
        match self.query(text) {
            Ok(answer) => answer.lines(),
            Err(error) => panic!("{text}: {error:?}"),
        }
    }

    /// The tag of a statement; panics at an error.
    pub(super) fn tag(&mut self, text: &str) -> String {
        match self.query(text) {
            Ok(answer) => answer.tag,
            Err(error) => panic!("{text}: {error:?}"),
        }
    }

    /// The SQLSTATE of the error that a statement ends with.
    pub(super) fn state(&mut self, text: &str) -> &'static str {
        match self.query(text) {
            Ok(answer) => panic!("{text}: {answer:?}"),
            Err(error) => error.sqlstate(),
        }
    }

    /// Runs a prepared statement with parameters in text format.
    pub(super) fn prepared(
        &mut self,
        text: &str,
        types: &[u32],
        values: &[Option<&str>],
    ) -> SqlResult<Answer> {
        let Self {
            connection,
            runtime,
        } = self;
        runtime.block_on(async {
            let statement = connection.prepare(text, types).await?;
            let values: Vec<Option<&[u8]>> =
                values.iter().map(|it| it.map(str::as_bytes)).collect();
            let mut portal = connection.bind(&statement, &[], &values, &[])?;
            let answer = finish(connection, &mut portal, Scope::Alone).await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    connection.failed();
                    return Err(error);
                }
            };
            connection.sync().await?;
            Ok(answer)
        })
    }

    /// The one value of an answer, in binary format.
    pub(super) fn binary_value(&mut self, text: &str) -> Vec<u8> {
        let Self {
            connection,
            runtime,
        } = self;
        runtime.block_on(async {
            let statement = connection.prepare(text, &[]).await.unwrap();
            let mut portal = connection.bind(&statement, &[], &[], &[1]).unwrap();
            let mut sink = Rows::default();
            let done = connection.execute(&mut portal, Scope::Alone, 0, &mut sink);
            done.await.unwrap();
            connection.sync().await.unwrap();
            sink.rows.remove(0).remove(0).unwrap()
        })
    }

    /// Runs a prepared statement with one parameter in binary format.
    pub(super) fn prepared_binary(&mut self, text: &str, value: &[u8]) -> SqlResult<Answer> {
        let Self {
            connection,
            runtime,
        } = self;
        runtime.block_on(async {
            let statement = connection.prepare(text, &[]).await?;
            let values = vec![Some(value); statement.parameters().len()];
            let mut portal = connection.bind(&statement, &[1], &values, &[])?;
            let answer = finish(connection, &mut portal, Scope::Alone).await?;
            connection.sync().await?;
            Ok(answer)
        })
    }

    /// The numbers of rows of each part of a portal, and its tag.
    pub(super) fn in_parts(&mut self, text: &str, limit: u32) -> SqlResult<(Vec<usize>, String)> {
        let Self {
            connection,
            runtime,
        } = self;
        runtime.block_on(async {
            let statement = connection.prepare(text, &[]).await?;
            let mut portal = connection.bind(&statement, &[], &[], &[])?;
            let mut parts = Vec::new();
            loop {
                let mut sink = Rows::default();
                let progress = connection
                    .execute(&mut portal, Scope::Part, limit, &mut sink)
                    .await?;
                parts.push(sink.rows.len());
                if let Progress::Complete(tag) = progress {
                    connection.sync().await?;
                    return Ok((parts, tag.to_string()));
                }
            }
        })
    }

    /// COPY FROM STDIN of these bytes, in chunks.
    pub(super) fn copy_in(&mut self, text: &str, data: &[u8], chunk: usize) -> SqlResult<String> {
        let scope = match self.connection.status() {
            TransactionStatus::Idle => Scope::Alone,
            _ => Scope::Part,
        };
        let Self {
            connection,
            runtime,
        } = self;
        let copied = runtime.block_on(async {
            let mut portal = connection.prepare_simple(text).await?;
            let mut sink = Rows::default();
            let progress = connection.execute(&mut portal, scope, 0, &mut sink).await?;
            assert!(matches!(progress, Progress::CopyIn { .. }), "{progress:?}");
            for part in data.chunks(chunk.max(1)) {
                connection.copy_data(part).await?;
            }
            let done = connection.copy_done().await?;
            connection.sync().await?;
            match done {
                Progress::Complete(tag) => Ok(tag.to_string()),
                other => panic!("{other:?}"),
            }
        });
        if copied.is_err() {
            connection.failed();
        }
        copied
    }

    /// COPY TO STDOUT.
    pub(super) fn copy_out(&mut self, text: &str) -> SqlResult<String> {
        let Self {
            connection,
            runtime,
        } = self;
        runtime.block_on(async {
            let mut portal = connection.prepare_simple(text).await?;
            let mut sink = Rows::default();
            loop {
                match connection
                    .execute(&mut portal, Scope::Alone, 0, &mut sink)
                    .await?
                {
                    Progress::CopyOut { .. } | Progress::SinkFull => {}
                    Progress::Complete(_) => break,
                    other => panic!("{other:?}"),
                }
            }
            connection.sync().await?;
            Ok(String::from_utf8(sink.lines).unwrap())
        })
    }
}

async fn run_all(connection: &mut Connection, texts: &[String]) -> SqlResult<Answer> {
    let scope = if texts.len() == 1 {
        Scope::Alone
    } else {
        Scope::Part
    };
    let mut answer = Answer::default();
    for text in texts {
        let mut portal = connection.prepare_simple(text).await?;
        answer = finish(connection, &mut portal, scope).await?;
    }
    connection.sync().await?;
    Ok(answer)
}

async fn finish(
    connection: &mut Connection,
    portal: &mut Portal,
    scope: Scope,
) -> SqlResult<Answer> {
    let mut sink = Rows::default();
    let columns = portal
        .columns()
        .unwrap_or_default()
        .iter()
        .map(|it| it.name.clone())
        .collect();
    let tag = match connection.execute(portal, scope, 0, &mut sink).await? {
        Progress::Complete(tag) => tag.to_string(),
        Progress::Empty => String::new(),
        other => return Err(SqlError::unsupported(format!("{other:?} in this test"))),
    };
    let text = |value: Option<Vec<u8>>| value.map(|bytes| String::from_utf8(bytes).unwrap());
    let rows = sink
        .rows
        .into_iter()
        .map(|row| row.into_iter().map(text).collect());
    Ok(Answer {
        columns,
        rows: rows.collect(),
        tag,
    })
}
