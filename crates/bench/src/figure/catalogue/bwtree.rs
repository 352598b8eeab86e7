//! The figures of `bwtree` with measurements: latencies and throughput of the Bw-tree and the
//! indexes that it is compared with.
//!
//! The paper has two sockets with 112 logical processors. Figures 13 and 15 run its 112 threads on
//! any machine; their sentences are judged only where each thread has a processor. A sentence about
//! latencies without a percentile is judged by the median. A sentence about throughput without a
//! number of threads is judged with one thread per processor.
//!
//! The sentences about the Bw-tree are judged on `bwtree-paper`, which is the tree that the paper
//! describes. The Bw-tree that this repository recommends is a line of its own. Figures 19 and 20 draw
//! the paper's two proposals, which it did not measure: that tree before and after each.
//!
//! Paper: bwtree §5.2; §5.3.1, figures 12 to 15; §5.3.2, figures 16 to 18; §5.4, figures 19 and 20

#[cfg(test)]
mod tests;

use namiki::index::TreeKind;

use super::super::claim::{At, Claim, Statement, Terms};
use super::super::definition::{Across, Experiment, Figure, IndexWork, Line, Runs, Threads, Work};
use super::super::measure::Measure;
use super::super::run_row::Count;

const PAPER: &str = "bwtree";
/// The paper's largest number of threads.
const MANY: u16 = 112;
/// The paper's other numbers of threads.
const PAPER_THREADS: &[u16] = &[8, 16, 32, 48, 64, 80, 96, MANY];
/// Operations of a run; 10,000,000 in the paper.
const OPERATIONS: u64 = 2_000_000;
/// The minimal coefficient of determination of a straight line.
const STRAIGHT: f64 = 0.98;
/// With fewer processors, there are too few numbers of threads for a straight line.
const CORES_OF_LINE: u16 = 8;
/// With fewer processors, the number of threads is not large.
const CORES_OF_GROWTH: u16 = 16;

const WRITE_ONLY: &str = "write=100";
const HALF: &str = "read=50,write=50";
const READ_ONLY: &str = "read=100";

/// Keys that are drawn.
#[derive(Clone, Copy)]
struct Drawn {
    keys: u64,
    skew: f64,
}

/// The keys of figures 12 to 18.
const UNIFORM: Drawn = Drawn {
    keys: 1_000_000,
    skew: 0.0,
};
/// Keys of one leaf, so that all threads write one page.
const FEW: Drawn = Drawn { keys: 8, skew: 0.0 };
/// Keys of which some are popular.
const SKEWED: Drawn = Drawn {
    keys: 1_000_000,
    skew: 1.0,
};

const fn experiment(
    name: &'static str,
    mix: &'static str,
    drawn: Drawn,
    each_percentile: bool,
) -> Experiment {
    Experiment {
        name,
        device: "null",
        beside: &[],
        runs: Runs::Index {
            mix,
            keys: drawn.keys,
            skew: drawn.skew,
            threads: Threads::Cores {
                also: PAPER_THREADS,
            },
            operations: OPERATIONS,
            each_percentile,
        },
    }
}

static WRITE_LATENCIES: Experiment =
    experiment("bwtree latency, write-only", WRITE_ONLY, UNIFORM, true);
static READ_LATENCIES: Experiment =
    experiment("bwtree latency, read-only", READ_ONLY, UNIFORM, true);
static WRITES: Experiment = experiment("bwtree throughput, write-only", WRITE_ONLY, UNIFORM, false);
static HALVES: Experiment = experiment("bwtree throughput, half reads", HALF, UNIFORM, false);
static READS: Experiment = experiment("bwtree throughput, read-only", READ_ONLY, UNIFORM, false);
static IN_CHAIN: Experiment = experiment("bwtree proposal (a), write-only", WRITE_ONLY, FEW, false);
static SPLIT_HEAD: Experiment = experiment("bwtree proposal (b), half reads", HALF, SKEWED, false);

/// The paper's own tree.
const BW: &str = "Bw-tree (paper's)";
/// The Bw-tree that this repository recommends.
const BW_OURS: &str = "Bw-tree (ours)";
/// The paper's own tree with one of its proposals.
const BW_IN_CHAIN: &str = "Bw-tree (paper's), consolidation within the chain";
const BW_SPLIT_HEAD: &str = "Bw-tree (paper's), split deltas at the head";
const BZ_APPEND: &str = "BzTree (append)";
const BZ_IN_PLACE: &str = "BzTree (in-place)";
const MASS: &str = "Masstree";
const OPEN_BW: &str = "OpenBw-Tree";

const BW_1: &str = "Bw-tree (paper's), 1 thread";
const BW_OURS_1: &str = "Bw-tree (ours), 1 thread";
const BZ_APPEND_1: &str = "BzTree (append), 1 thread";
const BZ_IN_PLACE_1: &str = "BzTree (in-place), 1 thread";
const MASS_1: &str = "Masstree, 1 thread";
const OPEN_BW_1: &str = "OpenBw-Tree, 1 thread";

const BW_112: &str = "Bw-tree (paper's), 112 threads";
const BW_OURS_112: &str = "Bw-tree (ours), 112 threads";
const BZ_APPEND_112: &str = "BzTree (append), 112 threads";
const BZ_IN_PLACE_112: &str = "BzTree (in-place), 112 threads";
const MASS_112: &str = "Masstree, 112 threads";
const OPEN_BW_112: &str = "OpenBw-Tree, 112 threads";

const fn line(name: &'static str, tree: TreeKind, threads: Option<u16>) -> Line {
    Line {
        name,
        work: Work::Index(IndexWork { tree, threads }),
    }
}

/// The paper's indexes and our Bw-tree, under these names.
const fn six(names: [&'static str; 6], threads: Option<u16>) -> [Line; 6] {
    let [bw, bz_append, bz_in_place, mass, open_bw, bw_ours] = names;
    [
        line(bw, TreeKind::BwtreePaper, threads),
        line(bz_append, TreeKind::BztreeAppend, threads),
        line(bz_in_place, TreeKind::BztreeInplace, threads),
        line(mass, TreeKind::Masstree, threads),
        line(open_bw, TreeKind::Openbw, threads),
        line(bw_ours, TreeKind::Bwtree, threads),
    ]
}

/// The lines of two figures.
const fn joined(these: [Line; 6], those: [Line; 6]) -> [Line; 12] {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (these, those);
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

const ALL: &[Line] = &six([BW, BZ_APPEND, BZ_IN_PLACE, MASS, OPEN_BW, BW_OURS], None);
const ONE_THREAD: [Line; 6] = six(
    [
        BW_1,
        BZ_APPEND_1,
        BZ_IN_PLACE_1,
        MASS_1,
        OPEN_BW_1,
        BW_OURS_1,
    ],
    Some(1),
);
const MANY_THREADS: [Line; 6] = six(
    [
        BW_112,
        BZ_APPEND_112,
        BZ_IN_PLACE_112,
        MASS_112,
        OPEN_BW_112,
        BW_OURS_112,
    ],
    Some(MANY),
);
/// The lines of 112 threads, and those of one thread, from which their growth is seen.
const ONE_AND_MANY: &[Line] = &joined(MANY_THREADS, ONE_THREAD);

/// The median of the latencies.
const MEDIAN: At = At::Threads(50);

/// A lock-free index's latency grows by a smaller factor than Masstree's.
const fn grows_less(pairs: &'static [(&'static str, &'static str)]) -> Statement {
    Statement::RatiosShrink(pairs, MEDIAN)
}

/// The first line is above the second, with one thread per processor.
const fn above(highest_first: &'static [&'static str]) -> Statement {
    Statement::Order(highest_first, At::Cores)
}

const fn gains(line: &'static str) -> Statement {
    Statement::Grows(line, At::Fewest, At::Cores)
}

const fn slows(line: &'static str) -> Statement {
    Statement::GrowthSlows(line, At::Cores)
}

const fn straight(line: &'static str) -> Statement {
    Statement::Straight(line, STRAIGHT, At::Cores)
}

/// Attempts of the line fail more often with one thread per processor than with one thread, and often
/// enough to matter.
const fn fails(line: &'static str) -> [Statement; 2] {
    [
        Statement::Over(line, At::Cores, MANY_FAIL),
        Statement::Grows(line, At::Fewest, At::Cores),
    ]
}

const CHANGES: &[Count] = &[
    Count::Operations,
    Count::CasMisses,
    Count::Consolidations,
    Count::ConsolidationsFailed,
    Count::DeltaVisits,
];

/// Any number of processors, two of them, and the paper's.
const TERMS: Terms = Terms::new(CHANGES);
const TWO_CORES: Terms = TERMS.cores(2);
const MANY_CORES: Terms = TERMS.cores(MANY);

/// Both are about reads with one thread, and with 112.
const BW_STANDS_OUT: &str = "どちらも Bw 木の遅延が一つ抜けて大きくなっている";
const OPEN_BW_AMONG: &str = "OpenBw 木は他の索引と変わらない位置についている";
/// About all workloads, as the claims after it.
const BW_IS_SLOW: &str = "実装した Bw 木は他の索引と比べて性能が出ていないことが明らかになった";

const LOCK_FREE_PAYS_OFF: Claim = Claim::new(
    "5.4",
    "並列動作時のロックフリー索引の有効性を確認できた",
    "with one thread per processor, every lock-free index is faster than with one thread",
    &[
        gains(BW),
        gains(BZ_APPEND),
        gains(BZ_IN_PLACE),
        gains(OPEN_BW),
    ],
    TWO_CORES,
);
const BW_IS_SLOWEST_LOCK_FREE: Claim = Claim::new(
    "5.4",
    BW_IS_SLOW,
    "with one thread per processor, the Bw-tree is slower than every other lock-free index",
    &[Statement::BelowAll(
        BW,
        &[BZ_APPEND, BZ_IN_PLACE, OPEN_BW],
        At::Cores,
    )],
    TWO_CORES,
);
const OURS_IS_FASTER: Claim = Claim::ours(
    "with one thread per processor, our Bw-tree is faster than the paper's",
    &[above(&[BW_OURS, BW])],
    TERMS,
);

/// Why the growth slows. Conflicts of structure changes, the other reason, are not counted.
const CAS_FAILS: &str = "この原因として CAS 更新の失敗による索引操作の実質的な直列化";
const CAS_OF_ALL: [Statement; 8] = {
    let [a, b] = fails(BW);
    let [c, d] = fails(BZ_APPEND);
    let [e, f] = fails(BZ_IN_PLACE);
    let [g, h] = fails(OPEN_BW);
    [a, b, c, d, e, f, g, h]
};
const CONSOLIDATIONS_FAIL: &str = "Consolidate 操作が連続的に失敗することにより操作のオーバーヘッドが大きくなっていることが考えられる";
const CAS_CANNOT_FAIL: &str = "この CAS は確実に成功させることができるため，Consolidate を再試行するスレッドは 1 つのみになる";
const HOT_KEYS_SUFFER: &str =
    "特に，特定のキーに書き込みが集中するようなワークロードで大きな遅延を引き起こすと考えられる";
const FEWER_DELTAS_READ: &str = "ΔSplit の存在を確認するためにデルタチェーン全てを読む必要がなくなる．その結果，デルタチェーンを読む数が減る";
const WALKS_ARE_SLOW: &str = "並行した書き込みが増える分だけデルタノードのキャッシュヒット率は低下し遅延が大きくなると考えられる";
/// Less than any share of failures above zero, in percent.
const NONE: f64 = 1e-9;
/// With no more failures, in percent, they explain little. The number is ours.
const MANY_FAIL: f64 = 10.0;

const SIZES: &str = "The paper runs 10,000,000 operations over 1,000,000 keys that were loaded before. Here a run has \
    {operations}, over {records} keys.";
const DRAWN: &str = "The paper does not give the skew of its figures. Here keys are drawn uniformly, and are \
    consecutive numbers of 8 bytes.";
const OURS: &str = "All indexes are those of this repository. The paper has Masstree and the OpenBw-Tree from their \
    authors; the OpenBw-Tree here is the Bw-tree with that tree's layout of leaves.";
const TWO_BW_TREES: &str = "The sentences about the Bw-tree are judged on the paper's (bwtree-paper), whose deltas \
    have only their own change. Our Bw-tree (bwtree) is not one of the paper's indexes.";
const NOT_MEASURED: &str = "The paper proposes this and did not measure it. Both lines are bwtree-paper, with and without.";
const ONE_PAGE: &str = "A run has {operations} writes to {records} keys, drawn uniformly. The default is 8 keys, which \
    are in one leaf, so that all threads write to the same page.";
const POPULAR: &str = "A run has {operations} over {records} keys, drawn by formula (1) with s = 1: a search ends early \
    only at a delta about its key, which uniform keys seldom have. Counted are the deltas of a leaf that a search visits to \
    find the leaf's range; the look-up after it may visit some again. Cache misses are not counted.";
const FENCE_IS_BELOW: &str = "A search that meets no delta about its key walks to the base node in both trees, because the \
    upper fence is there: without a split delta, the page may still have been split before the search came.";
const CLOCK: &str =
    "The clock is read around each operation; the time that this takes is subtracted.";
const MANY_ON_FEW: &str = "On fewer than 112 processors, the threads take turns: the curve then shows the scheduler, \
    too, and no sentence is judged.";

const NOTES: &[&str] = &[SIZES, DRAWN, OURS, TWO_BW_TREES];
const NOTES_OF_LATENCIES: &[&str] = &[SIZES, DRAWN, OURS, TWO_BW_TREES, CLOCK];
const NOTES_OF_MANY: &[&str] = &[SIZES, DRAWN, OURS, TWO_BW_TREES, CLOCK, MANY_ON_FEW];

pub(super) static FIGURES: &[Figure] = &[
    Figure {
        paper: PAPER,
        number: 12,
        section: "5.3.1",
        title: "latency of writes with 1 thread",
        experiment: &WRITE_LATENCIES,
        lines: &ONE_THREAD,
        across: Across::Percentiles,
        value: Measure::LatencyNs,
        claims: &[
            Claim::new(
            "5.3.1",
            "Bw 木はデルタレコードでの更新や Consolidate 操作など，シングルスレッド動作時のオーバーヘッドの大きさから遅延が大きくなっている",
            "with one thread, the Bw-tree's median latency of writes is the highest",
            &[Statement::AboveAll(
                    BW_1,
                    &[BZ_APPEND_1, BZ_IN_PLACE_1, MASS_1, OPEN_BW_1],
                    MEDIAN,
                )],
                TERMS,
            ),
            Claim::ours(
                "with one thread, our Bw-tree's median latency of writes is below the paper's",
                &[Statement::BelowAll(BW_OURS_1, &[BW_1], MEDIAN)],
                TERMS,
            ),
        ],
        notes: NOTES_OF_LATENCIES,
    },
    Figure {
        paper: PAPER,
        number: 13,
        section: "5.3.1",
        title: "latency of writes with 112 threads, and with 1",
        experiment: &WRITE_LATENCIES,
        lines: ONE_AND_MANY,
        across: Across::Percentiles,
        value: Measure::LatencyNs,
        claims: &[
            Claim::new(
                "5.3.1",
                "書き込みに対してロックを取得する Mass 木は並列数の増大に伴って待ち状態のスレッドが多くなり，遅延も伴って増大する",
                "Masstree's median latency is higher with 112 threads than with one",
                &[Statement::Order(&[MASS_112, MASS_1], MEDIAN)],
                MANY_CORES,
            ),
            Claim::new(
                "5.3.1",
                "ロックフリー索引は並列数の増加に対して遅延の増加が緩やかであることが確認できる",
                "from one thread to 112, the median latency of every lock-free index grows by a smaller factor than \
                 Masstree's",
                &[
                    grows_less(&[(MASS_112, MASS_1), (BW_112, BW_1)]),
                    grows_less(&[(MASS_112, MASS_1), (BZ_APPEND_112, BZ_APPEND_1)]),
                    grows_less(&[(MASS_112, MASS_1), (BZ_IN_PLACE_112, BZ_IN_PLACE_1)]),
                    grows_less(&[(MASS_112, MASS_1), (OPEN_BW_112, OPEN_BW_1)]),
                ],
                MANY_CORES,
            ),
        ],
        notes: NOTES_OF_MANY,
    },
    Figure {
        paper: PAPER,
        number: 14,
        section: "5.3.1",
        title: "latency of reads with 1 thread",
        experiment: &READ_LATENCIES,
        lines: &ONE_THREAD,
        across: Across::Percentiles,
        value: Measure::LatencyNs,
        claims: &[
            Claim::new(
                "5.3.1",
                BW_STANDS_OUT,
                "with one thread, the Bw-tree's median latency of reads is above every other by more than a tenth",
                &[Statement::StandsOut(
                    BW_1,
                    &[BZ_APPEND_1, BZ_IN_PLACE_1, MASS_1, OPEN_BW_1],
                    MEDIAN,
                )],
                TERMS,
            ),
            Claim::new(
                "5.3.1",
                OPEN_BW_AMONG,
                "with one thread, the OpenBw-Tree's median is between the lowest and the highest of the BzTrees and \
                 Masstree, or within a quarter of one of the two",
                &[Statement::Among(
                    OPEN_BW_1,
                    &[BZ_APPEND_1, BZ_IN_PLACE_1, MASS_1],
                    MEDIAN,
                )],
                TERMS,
            ),
        ],
        notes: NOTES_OF_LATENCIES,
    },
    Figure {
        paper: PAPER,
        number: 15,
        section: "5.3.1",
        title: "latency of reads with 112 threads",
        experiment: &READ_LATENCIES,
        lines: &MANY_THREADS,
        across: Across::Percentiles,
        value: Measure::LatencyNs,
        claims: &[
            Claim::new(
                "5.3.1",
                BW_STANDS_OUT,
                "with 112 threads, the Bw-tree's median latency of reads is above every other by more than a tenth",
                &[Statement::StandsOut(
                    BW_112,
                    &[BZ_APPEND_112, BZ_IN_PLACE_112, MASS_112, OPEN_BW_112],
                    MEDIAN,
                )],
                MANY_CORES,
            ),
            Claim::new(
                "5.3.1",
                OPEN_BW_AMONG,
                "with 112 threads, the OpenBw-Tree's median is between the lowest and the highest of the BzTrees and \
                 Masstree, or within a quarter of one of the two",
                &[Statement::Among(
                    OPEN_BW_112,
                    &[BZ_APPEND_112, BZ_IN_PLACE_112, MASS_112],
                    MEDIAN,
                )],
                MANY_CORES,
            ),
        ],
        notes: NOTES_OF_MANY,
    },
    Figure {
        paper: PAPER,
        number: 16,
        section: "5.3.2",
        title: "throughput of writes",
        experiment: &WRITES,
        lines: ALL,
        across: Across::Threads,
        value: Measure::OperationsPerSecond,
        claims: &[
            Claim::new(
                "5.3.2",
                "Write-Only のワークロードではロックを用いる Mass 木の性能が低く出ている",
                "with one thread per processor, Masstree is the slowest",
                &[Statement::BelowAll(
                    MASS,
                    &[BW, BZ_APPEND, BZ_IN_PLACE, OPEN_BW],
                    At::Cores,
                )],
                TWO_CORES,
            ),
            Claim::new(
                "5.3.2",
                "並列数が大きくなるとロックフリー索引のスループットの増加率も小さくなっている",
                "every lock-free index gains less for each additional thread in the last step to one thread per \
                 processor than in the first step (16 processors or more, a number of ours)",
                &[
                    slows(BW),
                    slows(BZ_APPEND),
                    slows(BZ_IN_PLACE),
                    slows(OPEN_BW),
                ],
                TERMS.cores(CORES_OF_GROWTH),
            ),
            Claim::new(
                "5.3.2",
                CAS_FAILS,
                "every lock-free index has failed compare-and-swaps for more than 10 % of its operations with one thread \
                 per processor (a number of ours), and for more than with one thread (16 processors or more)",
                &CAS_OF_ALL,
                TERMS.cores(CORES_OF_GROWTH),
            )
            .about(Measure::FailedCasPercent),
            LOCK_FREE_PAYS_OFF,
            BW_IS_SLOWEST_LOCK_FREE,
            OURS_IS_FASTER,
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 17,
        section: "5.3.2",
        title: "throughput, half reads and half writes",
        experiment: &HALVES,
        lines: ALL,
        across: Across::Threads,
        value: Measure::OperationsPerSecond,
        claims: &[LOCK_FREE_PAYS_OFF, BW_IS_SLOWEST_LOCK_FREE, OURS_IS_FASTER],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 18,
        section: "5.3.2",
        title: "throughput of reads",
        experiment: &READS,
        lines: ALL,
        across: Across::Threads,
        value: Measure::OperationsPerSecond,
        claims: &[
            Claim::new(
                "5.3.2",
                "どの索引もロックを取らないためスループットは直線的な増加が見られる",
                "up to one thread per processor, the throughput of every index rises in a straight line: R² of a \
                 least-squares fit is 0.98 at least",
                &[
                    straight(BW),
                    straight(BZ_APPEND),
                    straight(BZ_IN_PLACE),
                    straight(MASS),
                    straight(OPEN_BW),
                ],
                TERMS.cores(CORES_OF_LINE),
            ),
            Claim::new(
                "5.3.2",
                "単純な B+ 木である Mass 木は他のロックフリー索引と比べてノード取得のオーバーヘッドが小さいため有利である",
                "with one thread per processor and keys of 8 bytes, Masstree is the fastest",
                &[Statement::AboveAll(
                    MASS,
                    &[BW, BZ_APPEND, BZ_IN_PLACE, OPEN_BW],
                    At::Cores,
                )],
                TERMS,
            ),
            Claim::new(
                "5.4",
                BW_IS_SLOW,
                "with one thread per processor, the Bw-tree is the slowest",
                &[Statement::BelowAll(
                    BW,
                    &[BZ_APPEND, BZ_IN_PLACE, MASS, OPEN_BW],
                    At::Cores,
                )],
                TERMS,
            ),
            OURS_IS_FASTER,
        ],
        notes: NOTES,
    },
    Figure {
        paper: PAPER,
        number: 19,
        section: "5.4",
        title: "writes to few keys, before and after consolidation within the chain",
        experiment: &IN_CHAIN,
        lines: &[
            line(BW, TreeKind::BwtreePaper, None),
            line(BW_IN_CHAIN, TreeKind::BwtreePaperInchain, None),
        ],
        across: Across::Threads,
        value: Measure::OperationsPerSecond,
        claims: &[
            Claim::new(
                "5.4",
                CONSOLIDATIONS_FAIL,
                "before, more than 10 % of the consolidations that are tried fail with one thread per processor (a \
                 number of ours), and more than with one thread, where none can fail",
                &fails(BW),
                TWO_CORES,
            )
            .about(Measure::FailedConsolidationPercent),
            Claim::new(
                "5.4",
                CAS_CANNOT_FAIL,
                "after, no consolidation fails, with one thread per processor and with the most threads",
                &[
                    Statement::Below(BW_IN_CHAIN, At::Cores, NONE),
                    Statement::Below(BW_IN_CHAIN, At::Most, NONE),
                ],
                TWO_CORES,
            )
            .about(Measure::FailedConsolidationPercent),
            Claim::new(
                "5.4",
                HOT_KEYS_SUFFER,
                "with one thread per processor, writes are faster after than before",
                &[above(&[BW_IN_CHAIN, BW])],
                TWO_CORES,
            ),
        ],
        notes: &[NOT_MEASURED, ONE_PAGE],
    },
    Figure {
        paper: PAPER,
        number: 20,
        section: "5.4",
        title: "deltas visited to find the page's range, half reads and half writes, before and after split deltas at \
                the head",
        experiment: &SPLIT_HEAD,
        lines: &[
            line(BW, TreeKind::BwtreePaper, None),
            line(BW_SPLIT_HEAD, TreeKind::BwtreePaperSplithead, None),
        ],
        across: Across::Threads,
        value: Measure::DeltasPerOperation,
        claims: &[
            Claim::new(
                "5.4",
                FEWER_DELTAS_READ,
                "with one thread per processor, an operation visits fewer deltas to find the page's range after than \
                 before",
                &[above(&[BW, BW_SPLIT_HEAD])],
                TWO_CORES,
            ),
            Claim::new(
                "5.4",
                WALKS_ARE_SLOW,
                "with one thread per processor, operations are faster after than before",
                &[above(&[BW_SPLIT_HEAD, BW])],
                TWO_CORES,
            )
            .about(Measure::OperationsPerSecond),
        ],
        notes: &[NOT_MEASURED, POPULAR, FENCE_IS_BELOW],
    },
];
