//! The figures of `tictoc-pwal` with measurements: TicToc alone, and four ways of logging its
//! commits, on multi-core and many-core machines.
//!
//! The paper's "Group" is a group of 16, its "NoGroup" one of 1, and its device is memory that
//! pauses for 50 ns; here it has blocks of 64 bytes, so that a flush copies little more than its log
//! records. The paper explains its curves by transactions that fail to acquire locks: these are
//! drawn beside each figure, and judged where a sentence is about them. The paper does not state the
//! number of records; here it is the default of `txn`.
//!
//! Paper: tictoc-pwal §2.1.3, figure 3; §4.1, figures 6 to 9; §4.2, figures 10 to 13

#[cfg(test)]
mod tests;

use namiki::RecordFormat;

use super::super::claim::{At, Claim, Statement, Terms};
use super::super::counted_explanation::{Reason, Seen};
use super::super::definition::{
    Across, Experiment, Figure, Line, Runs, Threads, Transactions, Work,
};
use super::super::measure::Measure;
use super::super::run_row::Count;
use crate::args::{RecordBytes, Sequencer};
use crate::txn::Workload;

const PAPER: &str = "tictoc-pwal";
const NVM: &str = "nvm:50ns:64";

/// The paper's names for a group of 16, and of 1.
const NLR_NO_GROUP: &str = "TT(NLR)+PWAL(1)";
const NLR_GROUP: &str = "TT(NLR)+PWAL(16)";
const ELR_NO_GROUP: &str = "TT(ELR)+PWAL(1)";
const ELR_GROUP: &str = "TT(ELR)+PWAL(16)";
const SINGLE: &str = "TT(ELR)+SWAL(16)";

/// Cores of the paper's machines: 24, and 64 with four threads each.
const MULTI: u16 = 24;
const MANY: u16 = 64;
const MANY_THREADS: u16 = 256;

const fn line(workload: Workload, spec: &'static str) -> Line {
    Line {
        name: spec,
        work: Work::Transactions { workload, spec },
    }
}

const fn four(workload: Workload) -> [Line; 4] {
    [
        line(workload, NLR_NO_GROUP),
        line(workload, NLR_GROUP),
        line(workload, ELR_NO_GROUP),
        line(workload, ELR_GROUP),
    ]
}

const U1: Workload = Workload::Update(1);
const FOUR_U1: &[Line] = &four(U1);
const FIVE_U1: &[Line] = &[
    line(U1, NLR_NO_GROUP),
    line(U1, NLR_GROUP),
    line(U1, ELR_NO_GROUP),
    line(U1, ELR_GROUP),
    line(U1, SINGLE),
];
const FOUR_U10: &[Line] = &four(Workload::Update(10));
const FOUR_U5R5: &[Line] = &four(Workload::ReadUpdate(5));

const fn experiment(name: &'static str, also: &'static [u16], per_thread: u64) -> Experiment {
    Experiment {
        name,
        device: NVM,
        beside: &[Measure::FailedLocks],
        runs: Runs::Transactions {
            threads: Threads::Cores { also },
            transactions: Transactions::PerThread(per_thread),
            record_bytes: RecordBytes(RecordFormat::Compact),
            sequencer: Sequencer::FetchAdd,
        },
    }
}

const ON_MULTI: &[u16] = &[MULTI];
const ON_MANY: &[u16] = &[10, MANY, 150];
/// Numbers of threads on both sides of the breaks in the paper's curve.
const AROUND_BREAKS: &[u16] = &[64, 72, 128, 136, 192, 200];

static ALONE: Experiment = Experiment {
    beside: &[],
    ..experiment("tictoc-pwal without a log", AROUND_BREAKS, 1_000_000)
};
static MULTI_U1: Experiment = experiment("tictoc-pwal multicore U-1", ON_MULTI, 2_000_000);
static MULTI_U10: Experiment = experiment("tictoc-pwal multicore U-10", ON_MULTI, 2_000_000);
static MULTI_U5R5: Experiment = experiment("tictoc-pwal multicore U-5/R-5", ON_MULTI, 2_000_000);
static MANY_U1: Experiment = experiment("tictoc-pwal many-core U-1", ON_MANY, 1_000_000);
static MANY_U10: Experiment = experiment("tictoc-pwal many-core U-10", ON_MANY, 1_000_000);
static MANY_U5R5: Experiment = experiment("tictoc-pwal many-core U-5/R-5", ON_MANY, 1_000_000);

/// Failed locks per 100,000 transactions that are few.
const FEW_FAILED_LOCKS: f64 = 1_000.0;

/// Claims without a number of threads are tested with one thread per core.
const fn highest(lines: &'static [&'static str]) -> Statement {
    let at = At::Cores;
    Statement::Highest(lines, at)
}

const fn lowest(lines: &'static [&'static str]) -> Statement {
    let at = At::Cores;
    Statement::Lowest(lines, at)
}

const fn order(highest_first: &'static [&'static str]) -> Statement {
    let at = At::Cores;
    Statement::Order(highest_first, at)
}

const fn rises(line: &'static str) -> Statement {
    let up_to = At::Cores;
    Statement::Rises(line, up_to)
}

const fn stops_rising(line: &'static str, from: u16) -> Statement {
    Statement::StopsRising(line, from)
}

const fn flat(line: &'static str, from: u16) -> Statement {
    Statement::Flat(line, from)
}

const SAME_ON_ANY: &str = "The paper has this figure once for a machine of 24 cores and once for one of 64 \
    (256 threads); here both are made on the machine at hand.";
const RECORDS: &str = "The paper does not say how many records there are. Here there are {records}, \
    drawn uniformly.";
const IN_MEMORY: &str = "Emulated non-volatile memory: the log's files lie in memory, in /dev/shm unless --dir names another \
    folder, and a write is a copy into a mapped file and a pause of 50 ns. It has blocks of 64 bytes, a line of a \
    processor's cache; --device nvm:50ns has blocks of 512, to which each flush is padded.";
const NOTES: &[&str] = &[SAME_ON_ANY, RECORDS, IN_MEMORY];
const FAILED_LOCKS_ABORT: &str = "In the paper, a transaction whose validation fails to get a lock has aborted \
    (Algorithm 3, line 7). Here it releases its locks and tries them again, a limited number of times. What is \
    drawn counts both as Algorithm 3 does, for all lines (paper_abort_rate in the .csv; of the other algorithms the \
    paper says only that validation fails); abort_rate counts only what had to \
    run again.";
const NOTES_OF_ABORTS: &[&str] = &[SAME_ON_ANY, RECORDS, IN_MEMORY, FAILED_LOCKS_ABORT];

const CONTENTION: &[Count] = &[
    Count::Aborted,
    Count::MetLocks,
    Count::FailedLocks,
    Count::MetChanges,
    Count::Flushes,
    Count::CpuUsPerTransaction,
];
const ABORTS: &[Count] = &[
    Count::Aborted,
    Count::MetLocks,
    Count::FailedLocks,
    Count::MetChanges,
];

// Reasons why claims fail, given if the counts show them.
const fn less(count: Count, line: &'static str, than: &'static str) -> Seen {
    Seen::Less { count, line, than }
}

const GROUPS_SAVE_WRITES: Reason = Reason {
    text: "The single log has groups: it writes less often than the lines without groups (flushes), and spends less \
        processor time on a commit (cpu_us_per_transaction).",
    seen: &[
        less(Count::Flushes, SINGLE, NLR_NO_GROUP),
        less(Count::Flushes, SINGLE, ELR_NO_GROUP),
        less(Count::CpuUsPerTransaction, SINGLE, NLR_NO_GROUP),
        less(Count::CpuUsPerTransaction, SINGLE, ELR_NO_GROUP),
    ],
};
const FEW_MEET_LOCKS: Reason = Reason {
    text: "Locks that are held for a group, or released early, make a difference only to a transaction that meets \
        them, and on each line at most one in a hundred commits did (met_locks, failed_locks). The lines may differ \
        by what a commit costs by itself.",
    seen: &[Seen::FewMetLocks],
};
const ONE_THREAD: Reason = Reason {
    text: "With one thread hardly a lock is met, whenever it is released. The lines may differ by what a commit costs by \
        itself.",
    seen: &[Seen::Threads(1), Seen::FewMetLocks],
};
const GROUPS_SAVE_MORE: Reason = Reason {
    text: "A group writes once for several commits (flushes), and at most one in a hundred commits met a lock \
        (met_locks, failed_locks), held for a group or not.",
    seen: &[
        Seen::FewMetLocks,
        less(Count::Flushes, NLR_GROUP, NLR_NO_GROUP),
    ],
};
const FEW_MEET_ANY: Reason = Reason {
    text: "At most one in a hundred commits met a lock at all, held for a group or not (met_locks, failed_locks).",
    seen: &[Seen::FewMetLocks],
};

const TERMS: Terms = Terms::new(CONTENTION);
const ABORT_TERMS: Terms = Terms::new(ABORTS);

pub(super) static FIGURES: &[Figure] = &[
    Figure {
        paper: PAPER,
        number: 3,
        section: "2.1.3",
        title: "TicToc without a log, R-10 and U-5/R-5",
        experiment: &ALONE,
        lines: &[
            Line {
                name: "R-10",
                work: Work::Transactions {
                    workload: Workload::Read(10),
                    spec: "NOLOG",
                },
            },
            Line {
                name: "U-5/R-5",
                work: Work::Transactions {
                    workload: Workload::ReadUpdate(5),
                    spec: "NOLOG",
                },
            },
        ],
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "2.1.3",
                "TicToc がメニーコア環境でスケールアップすることを観測した",
                "with one thread per core, TicToc is faster than with one thread; U-5/R-5 rises with each step to that",
                &[
                    Statement::Grows("R-10", At::Fewest, At::Cores),
                    rises("U-5/R-5"),
                ],
                Terms::new(&[Count::Aborted, Count::CpuUsPerTransaction]).cores(2),
            ),
            Claim::new(
                "1.3",
                "ログ先行書き込みが無い場合、TicToc の性能は 256 スレッドまでスケラアップした",
                "without a log, TicToc is faster at 256 threads than at 128",
                &[
                    Statement::Grows("R-10", At::Threads(128), At::Threads(256)),
                    Statement::Grows("U-5/R-5", At::Threads(128), At::Threads(256)),
                ],
                ABORT_TERMS.cores(MANY_THREADS),
            ),
            Claim::new(
                "2.1.3",
                "R-10 ワークロードにおいてワーカー数が 64, 128, 192 を超えると急激に性能が低下している",
                "R-10 drops by a tenth or more past 64, 128 and 192 workers",
                &[Statement::DropsAfter("R-10", &[64, 128, 192])],
                Terms::new(&[Count::CpuUsPerTransaction]).cores(MANY_THREADS),
            ),
        ],
        notes: &[RECORDS],
    },
    Figure {
        paper: PAPER,
        number: 6,
        section: "4.1.2",
        title: "U-1 on a multicore machine",
        experiment: &MULTI_U1,
        lines: FIVE_U1,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.1.2",
                "ELR は約 1000 万 tps を上限に、ワーカー スレッドを増加させてもスループットが上昇しない",
                "from 8 threads on (a number of ours), ELR does not rise with more (by a tenth at most)",
                &[stops_rising(ELR_NO_GROUP, 8), stops_rising(ELR_GROUP, 8)],
                TERMS.cores(MULTI),
            ),
            Claim::new(
                "4.1.2",
                "NLR はスケールしていることが観察される",
                "NLR scales",
                &[rises(NLR_NO_GROUP), rises(NLR_GROUP)],
                TERMS.cores(2),
            ),
            Claim::new(
                "4.1.2",
                "グループコミットを行わない場合に比べてスループットが高まっている",
                "under NLR, groups raise the throughput",
                &[order(&[NLR_GROUP, NLR_NO_GROUP])],
                TERMS.cores(2),
            ),
            Claim::new(
                "4.1.2",
                "グループコミットを行ってロックの保有期間が延びても競合の可能性が低い",
                "under NLR with groups, a lock fails for less than one in a hundred commits (a number of ours)",
                &[Statement::Below(NLR_GROUP, At::Cores, FEW_FAILED_LOCKS)],
                TERMS.cores(MULTI),
            )
            .about(Measure::FailedLocks),
            Claim::new(
                "4.1.2",
                "TT (ELR) + SWAL は他の提案手法に比べて性能が悪い",
                "a single log is slower than all the others",
                &[lowest(&[SINGLE])],
                TERMS.cores(2).unless(GROUPS_SAVE_WRITES),
            ),
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 7,
        section: "4.1.3",
        title: "U-10 on a multicore machine",
        experiment: &MULTI_U10,
        lines: FOUR_U10,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.1.3",
                "ELR, NLR とともにスレッド数増加と共にスケールしている",
                "ELR and NLR both scale with the threads",
                &[
                    rises(NLR_NO_GROUP),
                    rises(NLR_GROUP),
                    rises(ELR_NO_GROUP),
                    rises(ELR_GROUP),
                ],
                TERMS.cores(2),
            ),
            Claim::new(
                "4.1.3",
                "TT (NLR) + PWAL (Group) の性能が最も悪い",
                "NLR with groups is the slowest",
                &[lowest(&[NLR_GROUP])],
                TERMS.cores(2).unless(FEW_MEET_LOCKS),
            ),
            Claim::new(
                "4.1.3",
                "この手法がデータベースオブジェクトのロック保有期間が 4 手法中で最長であることだと考える",
                "the paper supposes that NLR with groups is slow because it holds locks the longest; if so, it fails to \
                 acquire locks more often than the others",
                &[highest(&[NLR_GROUP])],
                TERMS.cores(2),
            )
            .about(Measure::FailedLocks),
            Claim::new(
                "4.1.3",
                "TT (ELR) + PWAL (Group) の性能が最も良い",
                "ELR with groups is the fastest",
                &[highest(&[ELR_GROUP])],
                TERMS.cores(2).unless(FEW_MEET_LOCKS),
            ),
            Claim::new(
                "4.1.3",
                "TT (ELR) + PWAL (Group) は TT (ELR) + PWAL (NoGroup) よりも高いスループットを示した",
                "under ELR, groups raise the throughput",
                &[order(&[ELR_GROUP, ELR_NO_GROUP])],
                TERMS.cores(2),
            ),
            Claim::new(
                "1.3",
                "マルチコア環境においては ELR とグループコミットが TicToc の性能を改善する",
                "ELR with groups is faster than NLR without",
                &[order(&[ELR_GROUP, NLR_NO_GROUP])],
                TERMS.cores(2),
            ),
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 8,
        section: "4.1.4",
        title: "U-5/R-5 on a multicore machine",
        experiment: &MULTI_U5R5,
        lines: FOUR_U5R5,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.1.4",
                "はじめは TT (ELR) + PWAL (Group) が他の手法に比べて性能が高い",
                "with the fewest threads, ELR with groups is the fastest",
                &[Statement::Highest(&[ELR_GROUP], At::Fewest)],
                TERMS.unless(ONE_THREAD),
            ),
            Claim::new(
                "4.1.4",
                "24 スレッドでは TT (NLR) + PWAL (NoGroup) が他の手法と比べて最も性能が高くなっている",
                "at 24 threads, NLR without groups has become the fastest",
                &[Statement::Crosses(NLR_NO_GROUP, At::Threads(MULTI))],
                TERMS.cores(MULTI),
            ),
            Claim::new(
                "4.1.4",
                "このワークロードでも 1000 万 tps に近づくと徐々に性能が劣化している",
                "from 16 threads on (a number of ours), ELR does not rise with more (by a tenth at most)",
                &[stops_rising(ELR_NO_GROUP, 16), stops_rising(ELR_GROUP, 16)],
                TERMS.cores(MULTI),
            ),
            Claim::new(
                "4.1.4",
                "NLR は…ワーカースレッド数増加と共にスケールし",
                "NLR scales with the threads",
                &[rises(NLR_NO_GROUP), rises(NLR_GROUP)],
                TERMS.cores(2),
            ),
            Claim::new(
                "4.1.4",
                "TT (NLR) + PWAL (Group) は TT (NLR) + PWAL (NoGroup) に比べてスループットが低い",
                "under NLR, groups lower the throughput",
                &[order(&[NLR_NO_GROUP, NLR_GROUP])],
                TERMS.cores(2).unless(GROUPS_SAVE_MORE),
            ),
            Claim::new(
                "4.1.4",
                "24 スレッド時に…スループットは NLR の方が高い",
                "at 24 threads, without groups, NLR is faster than ELR",
                &[Statement::Order(
                    &[NLR_NO_GROUP, ELR_NO_GROUP],
                    At::Threads(MULTI),
                )],
                TERMS.cores(MULTI),
            ),
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 9,
        section: "4.1.4",
        title: "U-5/R-5 on a multicore machine: aborts",
        experiment: &MULTI_U5R5,
        lines: FOUR_U5R5,
        across: Across::Threads,
        value: Measure::PaperAbortPercent,
        claims: &[
            Claim::new(
                "4.1.4",
                "TT (NLR) + PWAL (Group) のアボート率が TT (NLR) + PWAL (NoGroup) のアボート率に比べて高い",
                "under NLR, groups raise the rate of aborts",
                &[order(&[NLR_GROUP, NLR_NO_GROUP])],
                ABORT_TERMS.cores(2).unless(FEW_MEET_ANY),
            ),
            Claim::new(
                "4.1.4",
                "24 スレッド時に、ELR が NLR に対してアボート率が低くなっている",
                "at 24 threads, ELR aborts less than NLR",
                &[
                    Statement::Order(&[NLR_NO_GROUP, ELR_NO_GROUP], At::Threads(MULTI)),
                    Statement::Order(&[NLR_GROUP, ELR_GROUP], At::Threads(MULTI)),
                ],
                ABORT_TERMS.cores(MULTI),
            ),
        ],
        notes: NOTES_OF_ABORTS,
    },
    Figure {
        paper: PAPER,
        number: 10,
        section: "4.2.2",
        title: "U-1 on a many-core machine",
        experiment: &MANY_U1,
        lines: FOUR_U1,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.2.2",
                "TT (NLR) + PWAL (NoGroup) の性能が最も良い",
                "NLR without groups is the fastest",
                &[highest(&[NLR_NO_GROUP])],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.2",
                "TT (NLR) + PWAL (NoGroup) のピーク性能は TT (ELR) + PWAL (Group) と比べて 9.0 倍",
                "at its peak, NLR without groups is 9.0 times as fast as ELR with groups (within a quarter)",
                &[Statement::RatioOfPeaks(NLR_NO_GROUP, ELR_GROUP, 9.0)],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.2",
                "TT (ELR) + PWAL (NoGroup) および TT (ELR) + PWAL (Group) が最も低い性能",
                "ELR is the slowest, with groups or without",
                &[lowest(&[ELR_NO_GROUP, ELR_GROUP])],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.2",
                "10 スレッド以降でスループットが横ばいになっている",
                "from 10 threads on, ELR is flat (within a tenth)",
                &[flat(ELR_NO_GROUP, 10), flat(ELR_GROUP, 10)],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.2",
                "TT (NLR) + PWAL (NoGroup) は TT (NLR) + PWAL (Group) に比べて 1.8 倍のスループット",
                "under NLR, without groups it is 1.8 times as fast as with them (within a quarter)",
                &[Statement::Ratio(NLR_NO_GROUP, NLR_GROUP, At::Cores, 1.8)],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.2",
                "ロック獲得で競合する可能性がワーカースレッド数の上昇に伴って高まった",
                "under NLR with groups, locks fail more often with each step to more workers",
                &[rises(NLR_GROUP)],
                TERMS.cores(MANY),
            )
            .about(Measure::FailedLocks),
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 11,
        section: "4.2.3",
        title: "U-10 on a many-core machine",
        experiment: &MANY_U10,
        lines: FOUR_U10,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.2.3",
                "TT (NLR) + PWAL (Group) の性能が最も悪い",
                "NLR with groups is the slowest",
                &[lowest(&[NLR_GROUP])],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.3",
                "ワーカー数が増大することにより、ロックの競合率が増加し、並行性が低くなったのだと思われる",
                "as the paper supposes, under NLR with groups, locks fail more often with each step to more workers",
                &[rises(NLR_GROUP)],
                TERMS.cores(MANY),
            )
            .about(Measure::FailedLocks),
            Claim::new(
                "4.2.3",
                "TT (ELR) + PWAL (NoGroup) および TT (ELR) + PWAL (Group) は 150 スレッド以降でスケールアップが観測されない",
                "from 150 threads on, ELR does not rise with more (by a tenth at most)",
                &[
                    stops_rising(ELR_NO_GROUP, 150),
                    stops_rising(ELR_GROUP, 150),
                ],
                TERMS.cores(MANY_THREADS),
            ),
            Claim::new(
                "4.2.3",
                "TT (NLR) + PWAL (NoGroup) の性能が最も良い",
                "NLR without groups is the fastest",
                &[highest(&[NLR_NO_GROUP])],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "1.3",
                "ELR とグループコミットの適用が TicToc の性能を劣化させる",
                "ELR with groups is slower than NLR without",
                &[order(&[NLR_NO_GROUP, ELR_GROUP])],
                TERMS.cores(MANY),
            ),
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 12,
        section: "4.2.4",
        title: "U-5/R-5 on a many-core machine",
        experiment: &MANY_U5R5,
        lines: FOUR_U5R5,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.2.4",
                "スレッド数が増加するにしたがって TT (NLR) + PWAL (NoGroup) の性能が他の手法を上回る",
                "as threads are added, NLR without groups overtakes the others",
                &[Statement::Crosses(NLR_NO_GROUP, At::Cores)],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.4",
                "TT (NLR) + PWAL (NoGroup) は TT (ELR) + PWAL (Group) に比べて 1.3 倍のスループット",
                "NLR without groups is 1.3 times as fast as ELR with groups (within a quarter)",
                &[Statement::Ratio(NLR_NO_GROUP, ELR_GROUP, At::Cores, 1.3)],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "4.2.4",
                "TT (NLR) + PWAL (Group) の性能が最も悪い",
                "NLR with groups is the slowest",
                &[lowest(&[NLR_GROUP])],
                TERMS.cores(MANY),
            ),
            Claim::new(
                "6",
                "3 種類のワークロードすべてにおいて、ELRとグループコミットを用いない手法が最高性能を示した",
                "in this workload of the three (the others: figures 10 and 11), NLR without groups is the fastest",
                &[highest(&[NLR_NO_GROUP])],
                TERMS.cores(MANY),
            ),
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 13,
        section: "4.2.4",
        title: "U-5/R-5 on a many-core machine: aborts",
        experiment: &MANY_U5R5,
        lines: FOUR_U5R5,
        across: Across::Threads,
        value: Measure::PaperAbortPercent,
        claims: &[Claim::new(
            "4.2.4",
            "他の手法に比べてこの手法のアボート率が高いことだと考える",
            "NLR with groups, which is the slowest, aborts more than the others",
            &[highest(&[NLR_GROUP])],
            ABORT_TERMS.cores(MANY),
        )],
        notes: NOTES_OF_ABORTS,
    },
];
