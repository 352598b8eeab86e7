//! The paper's query, end to end: on segments, in both modes, with several numbers of threads and
//! tasks.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::support::{Shop, memory_disk, papers_query, sorted};
use namiki_exec::{Degree, Executor, Mode, Options, naive};
use namiki_platform::disk::Disk;

fn out_of_order(threads: usize, tasks: usize) -> Options {
    Options {
        threads: NonZeroUsize::new(threads).unwrap(),
        degree: Degree::Fixed(tasks),
        mode: Mode::OutOfOrder,
        ..Options::default()
    }
}

/// Paper: oode §3, figure 1.
#[test]
fn the_papers_query_has_the_plain_answer_in_both_modes() {
    let shop = Shop::new(3_000, 1);
    let (disk, dir) = memory_disk();
    let disk: Arc<dyn Disk> = disk;
    let tables = shop.on_disk(&disk, &dir);
    for balance in [9_000, 5_000, 10_000] {
        let plan = papers_query(balance);
        let expected = sorted(naive::run(&plan, &shop.in_memory()).unwrap().rows);
        assert_eq!(expected, sorted(naive::run(&plan, &tables).unwrap().rows));
        assert_eq!(expected.is_empty(), balance == 10_000);
        let mut all = vec![Options::ordered()];
        for (threads, tasks) in [(1, 1), (1, 16), (1, 256), (2, 1), (2, 16), (4, 8), (2, 128)] {
            all.push(out_of_order(threads, tasks));
        }
        for options in all {
            let executor = Executor::new(&disk, 0).unwrap();
            for tables in [&tables, &shop.in_memory()] {
                let mut rows = executor.run(&plan, tables, &options).unwrap();
                let answer = sorted(rows.collect_all().unwrap());
                assert_eq!(answer, expected, "{options:?}");
                let statistics = rows.statistics();
                println!("{options:?}\n   {statistics:?}");
                assert_eq!(statistics.counters.tasks_live, 0, "{statistics:?}");
                assert_eq!(statistics.counters.tasks_in_flight, 0, "{statistics:?}");
                assert_eq!(executor.frames_in_flight(), 0);
            }
        }
    }
}
