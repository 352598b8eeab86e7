//! Golden scripts: the life of a plan's tasks, as text.
//!
//! A script in `tests/golden/` says which tables there are, which pages are resident, how the plan
//! runs, and the plan; behind a line of dashes follows what happens. The test compares it, and
//! rewrites it if `UPDATE_GOLDEN` is set:
//!
//! ```text
//! UPDATE_GOLDEN=1 cargo test -p namiki-exec --lib golden
//! ```
//!
//! Everything happens in one operating system thread: workers take turns, one pass of their loop
//! each, so that a hand-over between two of them has one order of events. A simulated disk
//! completes reads in an order drawn from a seed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod script;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use namiki_data::columns::{Column, ColumnType, Datum, Schema};
use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, FramePool, PAGE_BYTES, ReadQueue, SimDisk};
use namiki_segment::{Inserted, PageCache, PageNo, Segment, SegmentId, Writer};
use script::{Script, TableOfScript};

use super::frame_share::frames_wanted;
use super::options::{Degree, Options};
use super::shared::{Resources, Shared};
use super::tasks::trace;
use super::threads::{Admission, RingEnds};
use super::worker::{Pass, Worker};
use crate::bind::bind;
use crate::program::compile;
use crate::source::{MemoryTable, SegmentTable, Source, Table, Tables};

const FRAMES: usize = 1024;

fn check(name: &str) {
    let path = format!("{}/tests/golden/{name}.script", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let script = Script::parse(&text);
    let output = run(&script);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{}---\n{output}", script.input)).unwrap();
    } else {
        assert_eq!(
            output, script.output,
            "{path}: if this is right, set UPDATE_GOLDEN=1"
        );
    }
}

/// A table T with the columns `T_id`, `T_next` (the `id` of another row) and `T_pad`, in one
/// segment.
fn make_table(disk: &Arc<dyn Disk>, number: u64, table: &TableOfScript) -> SegmentTable {
    let column = |name: &str, of| Column::new(&format!("{}_{name}", table.name), of);
    let columns = vec![
        column("id", ColumnType::I64),
        column("next", ColumnType::I64),
        column("pad", ColumnType::Text),
    ];
    let schema = Schema::new(columns, &[&format!("{}_id", table.name)]).unwrap();
    let pad = "x".repeat(table.pad_bytes);
    let row = |id: i64| -> Vec<Datum> {
        let next = id * table.step % table.of;
        vec![id.into(), next.into(), pad.as_str().into()]
    };
    let rows = MemoryTable::new(schema, (0..table.rows).map(row)).unwrap();
    let path = Path::new("/").join(&table.name);
    let id = SegmentId::new(1, number);
    let mut writer = Writer::create(disk, &path, id).unwrap();
    for (key, row) in rows.encoded_rows() {
        writer.push(key, row, Stamp(1)).unwrap();
    }
    writer.finish().unwrap();
    let segment = Arc::new(Segment::open(disk, &path, id).unwrap());
    SegmentTable::new(rows.schema().clone(), vec![segment]).unwrap()
}

/// Puts pages of a segment into the cache.
fn make_resident(resources: &Resources, segment: &Segment, pages: &[u32]) {
    let reader = resources.cache.reader();
    for page in pages {
        let mut frame = resources.pool.take().unwrap();
        let at = Segment::page_offset(PageNo(*page));
        let read = segment.file().read_at(at, &mut frame[..]).unwrap();
        assert_eq!(read, PAGE_BYTES);
        let inserted = reader.insert(segment, PageNo(*page), frame).unwrap();
        assert!(matches!(inserted, Inserted::Resident));
    }
}

/// The position of a worker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Runs,
    HasAsked,
    Ended,
}

fn run(script: &Script) -> String {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let resources = Resources {
        disk: Arc::clone(&disk),
        pool: FramePool::new(FRAMES).unwrap(),
        cache: PageCache::new(FRAMES / 2 * PAGE_BYTES),
    };
    let mut tables = Tables::new();
    for (number, table) in (1..).zip(&script.tables) {
        let source = make_table(&disk, number, table);
        make_resident(&resources, &source.segments().unwrap()[0], &table.resident);
        tables.insert(&table.name, Table::new(Arc::new(source)));
    }
    let options = Options {
        threads: script.threads,
        degree: Degree::Fixed(script.degree),
        ..Options::default()
    };
    let program = compile(&bind(&script.plan, &tables).unwrap());
    assert_eq!(
        program.pipelines.len(),
        1,
        "one pipeline: no barrier between workers"
    );
    let admission = Admission::new(FRAMES / 2);
    let permit = admission.admit(script.threads.get(), frames_wanted(&options));
    let planned = (script.plan.clone(), tables);
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

/// Writes what a worker has done in its turn.
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
    check("join");
}

/// Degree one is the ordered execution of nested loops.
#[test]
fn tasks_of_ordered_execution_run_in_order() {
    check("ordered");
}

/// An idle worker asks for work, and gets half of a range, or rows before their next step.
///
/// Paper: oode §2
#[test]
fn tasks_move_to_an_idle_worker() {
    check("hand_over");
}
