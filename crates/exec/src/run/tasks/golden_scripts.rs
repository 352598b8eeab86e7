//! Golden scripts in `tests/golden/`: the life of a plan's tasks, as text.
//!
//! | command | meaning |
//! |---|---|
//! | `table T rows=N step=N of=N pad=BYTES` | a table in one segment, with three columns |
//! | `resident T PAGE…` | puts pages of the table into the cache |
//! | `run PLAN [threads=N] [degree=N]` | runs the plan; shows the events of its tasks, and its rows |
//!
//! The columns are `T_id` from 0, `T_next`, which is `T_id * step` modulo `of`, and the text `T_pad`.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p namiki-exec --lib golden` writes the expected output anew.
//!
//! Everything happens in one operating system thread: workers take turns, one pass of their loop
//! each, so that a hand-over between two of them has one order of events. A simulated disk
//! completes reads in an order drawn from a seed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use goldenscript::{Command, Context, Runner};
use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, Frame, FramePool, PAGE_BYTES, ReadQueue, SimDisk};
use namiki_segment::{Inserted, PageCache, PageNo, Segment, SegmentId, Writer};

use super::trace;
use crate::bind::bind;
use crate::plan::Plan;
use crate::program::compile;
use crate::run::frame_share::frames_wanted;
use crate::run::options::{Degree, Options};
use crate::run::shared::{Resources, Shared};
use crate::run::threads::{Admission, RingEnds};
use crate::run::worker::{Pass, Worker};
use crate::source::{MemoryTable, SegmentTable, Source, Table, Tables};

const FRAMES: usize = 1024;

#[derive(Command)]
enum Step {
    Table {
        name: String,
        #[arg(key)]
        rows: i64,
        #[arg(key)]
        step: i64,
        #[arg(key)]
        of: i64,
        #[arg(key)]
        pad: usize,
    },
    Resident(String, Vec<u32>),
    Run {
        plan: String,
        #[arg(key)]
        threads: Option<NonZeroUsize>,
        #[arg(key)]
        degree: Option<usize>,
    },
}

/// The tables of a script, and what runs of plans share.
struct Script {
    disk: Arc<dyn Disk>,
    pool: Arc<FramePool>,
    cache: Arc<PageCache<Frame>>,
    tables: Tables,
    segments: HashMap<String, Arc<Segment>>,
}

impl Runner for Script {
    type Command = Step;

    fn run(&mut self, step: &Step, _: &Context) -> Result<String, Box<dyn Error>> {
        match step {
            Step::Table {
                name,
                rows,
                step,
                of,
                pad,
            } => self.make_table(name, (0..*rows).map(|id| (id, id * step % of)), *pad),
            Step::Resident(table, pages) => self.make_resident(&self.segments[table], pages),
            Step::Run {
                plan,
                threads,
                degree,
            } => {
                let options = Options {
                    threads: threads.unwrap_or(NonZeroUsize::MIN),
                    degree: Degree::Fixed(degree.unwrap_or(1)),
                    ..Options::default()
                };
                return Ok(self.run_plan(&plan.parse()?, options));
            }
        }
        Ok(String::new())
    }
}

fn run(script: &str) {
    let mut runner = Script {
        disk: Arc::new(SimDisk::new()),
        pool: FramePool::new(FRAMES).unwrap(),
        cache: PageCache::new(FRAMES / 2 * PAGE_BYTES),
        tables: Tables::new(),
        segments: HashMap::new(),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    goldenscript::run(&mut runner, folder.join(script)).unwrap();
}

impl Script {
    fn make_table(&mut self, name: &str, rows: impl Iterator<Item = (i64, i64)>, pad: usize) {
        let column = |column: &str, of| Column::new(&format!("{name}_{column}"), of);
        let columns = vec![
            column("id", ColumnType::I64),
            column("next", ColumnType::I64),
            column("pad", ColumnType::Text),
        ];
        let schema = Schema::new(columns, &[&format!("{name}_id")]).unwrap();
        let pad = "x".repeat(pad);
        let row = |(id, next): (i64, i64)| -> Vec<Datum> {
            vec![id.into(), next.into(), pad.as_str().into()]
        };
        let rows = MemoryTable::new(schema, rows.map(row)).unwrap();
        let path = Path::new("/").join(name);
        let id = SegmentId::new(1, self.segments.len() as u64 + 1);
        let mut writer = Writer::create(&self.disk, &path, id).unwrap();
        for (key, row) in rows.encoded_rows() {
            writer.push(key, row, Stamp(1)).unwrap();
        }
        writer.finish().unwrap();
        let segment = Arc::new(Segment::open(&self.disk, &path, id).unwrap());
        let source = SegmentTable::new(rows.schema().clone(), vec![Arc::clone(&segment)]);
        self.tables
            .insert(name, Table::new(Arc::new(source.unwrap())));
        self.segments.insert(name.to_owned(), segment);
    }

    /// Puts pages of a segment into the cache.
    fn make_resident(&self, segment: &Segment, pages: &[u32]) {
        let reader = self.cache.reader();
        for page in pages {
            let mut frame = self.pool.take().unwrap();
            let at = Segment::page_offset(PageNo(*page));
            let read = segment.file().read_at(at, &mut frame[..]).unwrap();
            assert_eq!(read, PAGE_BYTES);
            let inserted = reader.insert(segment, PageNo(*page), frame).unwrap();
            assert!(matches!(inserted, Inserted::Resident));
        }
    }

    fn run_plan(&self, plan: &Plan, options: Options) -> String {
        let resources = Resources {
            disk: Arc::clone(&self.disk),
            pool: Arc::clone(&self.pool),
            cache: Arc::clone(&self.cache),
        };
        let program = compile(&bind(plan, &self.tables).unwrap());
        assert_eq!(
            program.pipelines.len(),
            1,
            "one pipeline: no barrier between workers"
        );
        let admission = Admission::new(FRAMES / 2);
        let permit = admission.admit(options.threads.get(), frames_wanted(&options));
        let planned = (plan.clone(), self.tables.clone());
        let shared = Shared::new(resources, program, planned, options, permit.unwrap());
        trace::begin(
            shared
                .segments
                .iter()
                .map(|(_, table)| table.clone())
                .collect(),
        );
        let mut output = String::new();
        run_workers(&shared, &mut output);
        shared.output.close();
        let mut rows = 0;
        while let Some(batch) = shared.output.receive() {
            for at in 0..batch.len() {
                let columns = batch.slots().iter();
                let values: Vec<String> = columns
                    .map(|slot| slot.get(batch.row(at)).to_string())
                    .collect();
                writeln!(output, "row {}", values.join(" ")).unwrap();
            }
            rows += batch.len();
        }
        let statistics = shared.statistics();
        let counters = statistics.counters;
        assert_eq!((counters.tasks_live, counters.tasks_in_flight), (0, 0));
        writeln!(
            output,
            "{rows} rows, {} tasks, {} reads, {} merged faults, {} handed over",
            counters.tasks, counters.reads, counters.merged_faults, statistics.handed_over
        )
        .unwrap();
        output
    }
}

/// The position of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Runs,
    HasAsked,
    Ended,
}

/// Lets workers take turns until all have ended the pipeline.
fn run_workers(shared: &Shared, output: &mut String) {
    let threads = shared.peers.count();
    let mut queues: Vec<Option<Box<dyn ReadQueue>>> = (0..threads).map(|_| None).collect();
    let rings = RingEnds::between(threads);
    let ends = queues.iter_mut().zip(rings).enumerate();
    let mut workers: Vec<Worker<'_>> = ends
        .map(|(number, (queue, rings))| Worker::new(shared, number, rings, queue))
        .collect();
    let mut turns = vec![Turn::Runs; threads];
    for (number, worker) in workers.iter_mut().enumerate() {
        trace::lines_before(number);
        worker.sink.begin(worker.pipeline);
        worker.begin().unwrap();
        show(number, "", output);
    }
    while turns.iter().any(|turn| *turn != Turn::Ended) {
        for (number, worker) in workers.iter_mut().enumerate() {
            trace::lines_before(number);
            let (next, what) = match turns[number] {
                Turn::Runs => match worker.pass().unwrap() {
                    Pass::Again => (Turn::Runs, ""),
                    Pass::Ended => (Turn::Ended, "ends"),
                    Pass::OutOfWork if worker.channels.ask_for_work() => {
                        (Turn::Ended, "finds the pipeline ended")
                    }
                    Pass::OutOfWork => (Turn::HasAsked, "asks for work"),
                },
                Turn::HasAsked if shared.peers.has_ended() => (Turn::Ended, "ends"),
                Turn::HasAsked if worker.channels.take_work(&mut worker.tasks) => {
                    (Turn::Runs, "gets work")
                }
                other => (other, ""),
            };
            turns[number] = next;
            show(number, what, output);
        }
    }
    for worker in &mut workers {
        worker.drain();
        _ = worker.sink.end(false);
    }
}

/// Writes the events of a worker's turn.
fn show(worker: usize, what: &str, output: &mut String) {
    let lines = trace::lines_before(worker);
    if lines.is_empty() && what.is_empty() {
        return;
    }
    writeln!(output, "worker {worker}").unwrap();
    for line in lines {
        writeln!(output, "  {line}").unwrap();
    }
    if !what.is_empty() {
        writeln!(output, "  {what}").unwrap();
    }
}

/// One thread: resident pages cost no task, one page is read once for all tasks, and results are
/// used in the order in which they arrive.
///
/// Paper: oode §2
#[test]
fn tasks_of_a_join_wait_for_pages() {
    run("join");
}

/// Degree one is the ordered execution of nested loops.
#[test]
fn tasks_of_ordered_execution_run_in_order() {
    run("ordered");
}

/// An idle worker asks for work, and gets half of a range, or rows before their next step.
///
/// Paper: oode §2
#[test]
fn tasks_move_to_an_idle_worker() {
    run("hand_over");
}
