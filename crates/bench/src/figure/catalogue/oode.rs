//! The figures of `oode`: its query with many tasks in each of a few threads, relative to the same
//! query with one task in one thread, and the use of the processors.
//!
//! The paper has 128 logical cores and 192 disk drives. Here the query reads this machine's disk,
//! which has a queue instead of arms. With `--device slow:192x5ms` it reads emulated drives
//! instead, with the paper's numbers of threads and tasks.
//!
//! Paper: oode §3.1, figures 2 to 5; §3.2, figures 6 to 9

use super::super::claim::{At, Claim, Statement, Terms};
use super::super::cost_model::{CostModel, CostOf};
use super::super::definition::{Across, Experiment, Figure, Line, QueryThreads, Runs, Sweep, Work};
use super::super::measure::Measure;
use super::super::run_row::Count;

const PAPER: &str = "oode";

/// The minimal coefficient of determination of a curve that is nearly linear.
const NEARLY_LINEAR: f64 = 0.98;

static THREADS: Experiment = Experiment {
    name: "oode threads",
    device: "file",
    beside: &[],
    runs: Runs::Queries(Sweep::Threads {
        tasks: 16,
        counts: &[1, 2, 4, 8, 16],
        emulated: &[1, 2, 4, 8, 16, 32, 64, 128],
    }),
};

static TASKS: Experiment = Experiment {
    name: "oode tasks",
    device: "file",
    beside: &[],
    runs: Runs::Queries(Sweep::Tasks {
        counts: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
        emulated: &[1, 2, 4, 8, 16],
        emulated_threads: 128,
    }),
};

/// The reference of the relative values, which is also a point of its own.
pub(in crate::figure) const ORDERED: &str = "ordered execution";
const OUT_OF_ORDER: &str = "out of order";
const ONE_THREAD: &str = "out of order, one thread";
const ADAPTIVE: &str = "out of order, adaptive";

const fn line(name: &'static str, work: Work) -> Line {
    Line { name, work }
}

const BY_ORDER: Line = line(ORDERED, Work::OrderedQuery);
const BY_ALL: Line = line(OUT_OF_ORDER, Work::Query(QueryThreads::All));
const BY_ONE: Line = line(ONE_THREAD, Work::Query(QueryThreads::One));
const BY_DEFAULT: Line = line(ADAPTIVE, Work::Query(QueryThreads::AllAdaptive));

const TWO: &[Line] = &[BY_ORDER, BY_ALL];
const THREE: &[Line] = &[BY_ORDER, BY_ALL, BY_ONE];
/// The lines of tasks, and the executor's default beside them.
const FOUR: &[Line] = &[BY_ORDER, BY_ALL, BY_ONE, BY_DEFAULT];
/// The number of tasks that was chosen by hand for one thread on a disk.
const BY_HAND: At = At::Threads(128);

const RELATIVE: &str = "Relative to the ordered execution of the same round: one thread with one task, as a conventional \
    engine runs the plan. On emulated drives that is run in the first round alone, because it takes minutes.";
const COLD: &str = "Each run begins with an empty cache and reads the device directly. Threads, their queues of reads and the \
    memory for pages are there before the clock starts.";
const OWN_CPU: &str = "The use of processors is that of this process alone, where the paper adds up what mpstat shows of the \
    whole machine, which is 0.4 % without a query. So the fit is to cross the axis at zero.";
const CORES: &str = "Percent are of all processors here, in the paper of 128.";
const MORE_THREADS: &str = "On this machine's disk there are more threads than processors at the right end: a thread waits for \
    the disk most of the time.";
const BY_ITSELF: &str = "Out of order, adaptive, is the executor's default: each thread has as many tasks as it finds useful. \
    So its line is level. It is not the paper's.";
const AS_MANY: &str = "On this machine's disk there are as many threads as processors, as in the paper, and beside them one; \
    on emulated drives 128.";

const BESIDE: &[Count] = &[
    Count::Reads,
    Count::Iops,
    Count::CpuUsPerIo,
    Count::Polls,
    Count::WakeUps,
];

const FASTER: Statement = Statement::Falls(OUT_OF_ORDER, At::Fewest);
const RISES: Statement = Statement::Climbs(OUT_OF_ORDER, At::Fewest);
const STRAIGHT: Statement = Statement::Linear(OUT_OF_ORDER, NEARLY_LINEAR);
const NO_DEARER: Statement = Statement::NoDearer(OUT_OF_ORDER);

const TERMS: Terms = Terms::new(BESIDE);
const READS: CostOf = CostOf {
    count: Count::Reads,
    one: "read",
    many: "reads",
};
const POLLS: CostOf = CostOf {
    count: Count::Polls,
    one: "call that submits or completes reads",
    many: "calls that submit or complete them",
};
const WAKE_UPS: CostOf = CostOf {
    count: Count::WakeUps,
    one: "wake-up of a thread",
    many: "wake-ups of threads",
};
/// With more tasks, a call returns more reads, and fewer calls wait.
const STRAIGHT_TERMS: Terms = TERMS.or_adds_up(CostModel {
    line: OUT_OF_ORDER,
    sets: &[
        &[READS, WAKE_UPS],
        &[READS, POLLS],
        &[READS, POLLS, WAKE_UPS],
    ],
});

const DEFAULT_IS_AS_FAST: Claim = Claim::ours(
    "the executor's default, adaptive, takes at most a tenth longer than one thread with 128 tasks",
    &[Statement::NotAbove(ADAPTIVE, ONE_THREAD, BY_HAND)],
    TERMS,
);
const DEFAULT_READS_AS_FAST: Claim = Claim::ours(
    "one thread with 128 tasks has at most a tenth more reads per second than the executor's default, adaptive",
    &[Statement::NotAbove(ONE_THREAD, ADAPTIVE, BY_HAND)],
    TERMS,
);
const DEFAULT_IS_AS_CHEAP: Claim = Claim::ours(
    "the executor's default, adaptive, uses at most a tenth more of the processors than one thread with 128 tasks",
    &[Statement::NotAbove(ADAPTIVE, ONE_THREAD, BY_HAND)],
    TERMS,
);

pub(super) static FIGURES: &[Figure] = &[
    Figure {
        paper: PAPER,
        number: 2,
        section: "3.1",
        title: "relative time over threads, 16 tasks in each",
        experiment: &THREADS,
        lines: TWO,
        across: Across::Threads,
        value: Measure::RelativeSeconds,
        claims: &[Claim::new(
            "3.1",
            "スレッド数に応じて…その結果処理時間が短縮できている",
            "with the threads, the time becomes shorter: no step rises by more than a tenth, and it ends lower",
            &[FASTER],
            TERMS,
        )],
        notes: &[RELATIVE, COLD, MORE_THREADS],
    },
    Figure {
        paper: PAPER,
        number: 3,
        section: "3.1",
        title: "relative reads per second over threads, 16 tasks in each",
        experiment: &THREADS,
        lines: TWO,
        across: Across::Threads,
        value: Measure::RelativeIops,
        claims: &[Claim::new(
            "3.1",
            "スレッド数に応じてストレージシステムの IOPS 性能を引き出し",
            "with the threads, the reads per second rise: no step falls by more than a tenth, and they end higher",
            &[RISES],
            TERMS,
        )],
        notes: &[RELATIVE, COLD, MORE_THREADS],
    },
    Figure {
        paper: PAPER,
        number: 4,
        section: "3.1",
        title: "CPU use over threads, 16 tasks in each",
        experiment: &THREADS,
        lines: TWO,
        across: Across::Threads,
        value: Measure::CpuPercent,
        claims: &[
            Claim::new(
                "3.1",
                "IOPS 性能の向上に伴い CPU 利用率が増加している",
                "with the threads, and so with the reads per second, the use of processors rises",
                &[RISES],
                TERMS,
            ),
            Claim::new(
                "3.1",
                "2048 タスクが動作している際の CPU 利用率は 6.3%であった",
                "with 2,048 tasks, 6.3 % of the processors are used (within a quarter): of 128, that is 8.1",
                &[Statement::About(OUT_OF_ORDER, At::Most, 6.3)],
                TERMS.cores(128),
            ),
        ],
        notes: &[COLD, OWN_CPU, CORES, MORE_THREADS],
    },
    Figure {
        paper: PAPER,
        number: 5,
        section: "3.1",
        title: "CPU use over reads per second, 16 tasks in each thread",
        experiment: &THREADS,
        lines: TWO,
        across: Across::RelativeIops { of_tasks: false },
        value: Measure::CpuPercent,
        claims: &[
            Claim::new(
                "3.1",
                "相対 IOPS 性能に対して CPU 利用率がほぼ線形に増加している",
                "the use of processors rises almost linearly with the reads per second: R² of a least-squares fit is \
                 0.98 at least",
                &[STRAIGHT],
                STRAIGHT_TERMS,
            ),
            Claim::new(
                "3.1",
                "IOPS 性能が上昇してもロック競合の発生頻度が上昇していない",
                "contention does not grow with the reads per second: where there are the most, a read takes at most a \
                 tenth more processor time than where there are the fewest",
                &[NO_DEARER],
                TERMS,
            ),
            Claim::new(
                "3.1",
                "線形近似した際の縦軸との切片は約 0.4%…固定オーバーヘッドはほぼない",
                "there is hardly a fixed overhead: the fit crosses the axis within a tenth of the highest use from \
                 zero, since nothing but this process is counted",
                &[Statement::SmallIntercept(OUT_OF_ORDER)],
                TERMS,
            ),
        ],
        notes: &[RELATIVE, COLD, OWN_CPU, CORES, MORE_THREADS],
    },
    Figure {
        paper: PAPER,
        number: 6,
        section: "3.2",
        title: "relative time over tasks in each thread",
        experiment: &TASKS,
        lines: FOUR,
        across: Across::Tasks,
        value: Measure::RelativeSeconds,
        claims: &[
            Claim::new(
                "3.2",
                "スレッド内タスク数を増加させるにつれ…その結果処理時間が短縮できている",
                "with the tasks, the time becomes shorter: no step rises by more than a tenth, and it ends lower",
                &[FASTER],
                TERMS,
            ),
            DEFAULT_IS_AS_FAST,
        ],
        notes: &[RELATIVE, COLD, AS_MANY, BY_ITSELF],
    },
    Figure {
        paper: PAPER,
        number: 7,
        section: "3.2",
        title: "relative reads per second over tasks in each thread",
        experiment: &TASKS,
        lines: FOUR,
        across: Across::Tasks,
        value: Measure::RelativeIops,
        claims: &[
            Claim::new(
                "3.2",
                "スレッド内タスク数を増加させるにつれ、ストレージシステムの IOPS 性能を引き出し",
                "with the tasks, the reads per second rise: no step falls by more than a tenth, and they end higher",
                &[RISES],
                TERMS,
            ),
            DEFAULT_READS_AS_FAST,
        ],
        notes: &[RELATIVE, COLD, AS_MANY, BY_ITSELF],
    },
    Figure {
        paper: PAPER,
        number: 8,
        section: "3.2",
        title: "CPU use over tasks in each thread",
        experiment: &TASKS,
        lines: FOUR,
        across: Across::Tasks,
        value: Measure::CpuPercent,
        claims: &[
            Claim::new(
                "3.2",
                "IOPS 性能の向上に伴い CPU 利用率も増加している",
                "with the tasks, and so with the reads per second, the use of processors rises",
                &[RISES],
                TERMS,
            ),
            DEFAULT_IS_AS_CHEAP,
        ],
        notes: &[COLD, OWN_CPU, CORES, AS_MANY, BY_ITSELF],
    },
    Figure {
        paper: PAPER,
        number: 9,
        section: "3.2",
        title: "CPU use over reads per second, as the tasks in each thread grow",
        experiment: &TASKS,
        lines: THREE,
        across: Across::RelativeIops { of_tasks: true },
        value: Measure::CpuPercent,
        claims: &[
            Claim::new(
                "3.2",
                "スレッド数と同様に、相対 IOPS 性能に対して CPU 利用率がほぼ線形に増加している",
                "as with threads, the use of processors rises almost linearly with the reads per second: R² of a \
                 least-squares fit is 0.98 at least",
                &[STRAIGHT],
                STRAIGHT_TERMS,
            ),
            Claim::new(
                "3.2",
                "本測定においては IOPS 性能が上昇してもロック競合の発生頻度が上昇していない",
                "contention does not grow with the reads per second: where there are the most, a read takes at most a \
                 tenth more processor time than where there are the fewest",
                &[NO_DEARER],
                TERMS,
            ),
            Claim::new(
                "3.2",
                "本実験環境でのタスク数 2048 以下の測定において、I/O 性能が上昇してもロック競合の発生頻度は上昇しない",
                "over all numbers of tasks that were measured, both: nearly a line, and no read dearer than a tenth",
                &[STRAIGHT, NO_DEARER],
                STRAIGHT_TERMS,
            ),
        ],
        notes: &[RELATIVE, COLD, OWN_CPU, CORES, AS_MANY],
    },
];
