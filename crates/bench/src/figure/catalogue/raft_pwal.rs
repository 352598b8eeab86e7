//! The figures of `raft-pwal`: a cluster of five nodes, with a log for each worker, under the
//! paper's transfers, which share no account.
//!
//! The paper has five machines with 32 processors each. Here five processes share the processors of
//! one machine, so absolute transactions per second say little. The relative position of lines, and
//! the effect of distances on them, can be compared.
//!
//! Paper: raft-pwal §4.3, figures 2 to 6; §4.4

#[cfg(test)]
mod claim_tests;

use super::super::claim::{At, Claim, Statement, Terms};
use super::super::counted_explanation::{Reason, Seen};
use super::super::definition::{Across, ClusterWork, Experiment, Figure, Line, Runs, Work};
use super::super::measure::Measure;
use super::super::run_row::Count;
use crate::cluster::Wan;

const PAPER: &str = "raft-pwal";
const WORKERS: &[u16] = &[1, 2, 4, 8];
/// The paper's processors: five machines with 32 each. Its claims in transactions per second
/// require them.
const PAPER_CORES: u16 = 160;
/// The processors of the paper's leader.
const LEADER_CORES: u16 = 32;
/// The latency goal of the paper's authors, in milliseconds (§1.1).
const GOAL_MS: f64 = 400.0;

static GROUPS: Experiment = Experiment {
    name: "raft-pwal groups and distances",
    device: "file",
    beside: &[],
    runs: Runs::Cluster {
        workers: WORKERS,
        seconds: 3,
        each_second: false,
    },
};

static SECONDS: Experiment = Experiment {
    name: "raft-pwal CPU of the leader",
    device: "file",
    beside: &[],
    runs: Runs::Cluster {
        workers: WORKERS,
        seconds: 10,
        each_second: true,
    },
};

const ONE: &str = "GrpSize 1";
const ONE_WAITING: &str = "GrpSize 1, one group on its way";
const FIVE: &str = "GrpSize 5,000";
const TEN: &str = "GrpSize 10,000";
const TWENTY: &str = "GrpSize 20,000";
const FAR_ONE: &str = "GrpSize 1, Japan";
const FAR_ONE_WAITING: &str = "GrpSize 1, one group on its way, Japan";
const FAR_FIVE: &str = "GrpSize 5,000, Japan";
const FAR_TEN: &str = "GrpSize 10,000, Japan";
const FAR_TWENTY: &str = "GrpSize 20,000, Japan";

/// Large groups: 16 of them are in flight.
const fn groups(group_size: u32, wan: Wan) -> ClusterWork {
    ClusterWork {
        group_size,
        groups_in_flight: None,
        wan,
        workers: None,
        clients: 8,
        pipeline: 2,
    }
}

/// Groups of one: as many in flight as eight workers accept.
const fn ones(wan: Wan) -> ClusterWork {
    ClusterWork {
        clients: 32,
        pipeline: 16,
        ..groups(1, wan)
    }
}

/// Groups of one, with one of each worker in flight.
const fn waiting_ones(wan: Wan) -> ClusterWork {
    ClusterWork {
        groups_in_flight: Some(1),
        clients: 64,
        pipeline: 2,
        ..groups(1, wan)
    }
}

const fn line(name: &'static str, work: ClusterWork) -> Line {
    Line {
        name,
        work: Work::Cluster(work),
    }
}

const fn workers(name: &'static str, workers: u16) -> Line {
    line(
        name,
        ClusterWork {
            workers: Some(workers),
            ..groups(20_000, Wan::None)
        },
    )
}

const NEAR: &[Line] = &[
    line(ONE, ones(Wan::None)),
    line(ONE_WAITING, waiting_ones(Wan::None)),
    line(FIVE, groups(5_000, Wan::None)),
    line(TEN, groups(10_000, Wan::None)),
    line(TWENTY, groups(20_000, Wan::None)),
];
/// Lines with distances, and the lines without distances that claims compare them with.
const FAR: &[Line] = &[
    line(FAR_ONE, ones(Wan::Japan)),
    line(FAR_ONE_WAITING, waiting_ones(Wan::Japan)),
    line(FAR_FIVE, groups(5_000, Wan::Japan)),
    line(FAR_TEN, groups(10_000, Wan::Japan)),
    line(FAR_TWENTY, groups(20_000, Wan::Japan)),
    line(ONE_WAITING, waiting_ones(Wan::None)),
    line(FIVE, groups(5_000, Wan::None)),
    line(TWENTY, groups(20_000, Wan::None)),
];

const W1: &str = "1 worker";
const W5: &str = "5 workers";
const W8: &str = "8 workers";
const W10: &str = "10 workers";
const W20: &str = "20 workers";
const W30: &str = "30 workers";
/// The possible numbers of workers: the default ones and the paper's.
const BY_WORKERS: &[Line] = &[
    workers(W1, 1),
    workers("2 workers", 2),
    workers("4 workers", 4),
    workers(W5, 5),
    workers(W8, 8),
    workers(W10, 10),
    workers(W20, 20),
    workers(W30, 30),
];

const ONE_MACHINE: &str = "Five processes on this machine, with the clients beside them, share its processors and its disk. In the paper \
    each node has a machine with 32 processors and a disk of its own.";
const LOAD: &str = "The paper does not say how many transactions are in flight. Here there are {in_flight}. The mean round trip is what is in flight, divided by the throughput.";
const GROUP_OF_CLIENT: &str = "GrpSize is the size of a client's group, and the most that a worker puts into one of the log. A client's \
    group is spread over all workers, and a worker without other work does not wait for its group to fill.";
const ONE_ON_ITS_WAY: &str = "In the paper a worker's groups follow each other: about 16 ms pass for each with distances (§4.4). Here a worker \
    has up to 64 groups on their way, and a line is added in which it has one.";
const DISTANCES: &str = "Messages between nodes are held back for half of the paper's delay each way (table 2), in the paper \
    the handler of a follower sleeps. As there, the leader is in Tokyo.";
const EACH_SECOND: &str = "From the first transaction on: nothing is run before. The use is that of the node's process, where the paper has \
    that of the leader's machine.";

const BESIDE: &[Count] = &[Count::CpuPercent, Count::MeanRttMs, Count::InFlight];
const BESIDE_FAR: &[Count] = &[
    Count::CpuPercent,
    Count::MeanRttMs,
    Count::InFlight,
    Count::GroupsOnTheirWay,
];

// Reasons why claims fail, given if the counts show them.
const BUSY_TEXT: &str = "Nodes and clients use nine tenths or more of all processors (cpu_percent). Five nodes share what each has to itself in the \
    paper, and a further worker finds no processor.";
const BUSY: f64 = 90.0;
const fn busy(seen: &'static [Seen]) -> Reason {
    let text = BUSY_TEXT;
    Reason { text, seen }
}
const GROUPS_ARE_BUSY: Reason = busy(&[Seen::Many {
    count: Count::CpuPercent,
    lines: &[FIVE, TEN, TWENTY],
    at_least: BUSY,
}]);
const FAR_GROUPS_ARE_BUSY: Reason = busy(&[Seen::Many {
    count: Count::CpuPercent,
    lines: &[FAR_FIVE, FAR_TWENTY],
    at_least: BUSY,
}]);
const NODES_ARE_BUSY: Reason = busy(&[Seen::Many {
    count: Count::CpuPercent,
    lines: &[W1, W8],
    at_least: BUSY,
}]);
const MANY_ON_THEIR_WAY: Reason = Reason {
    text: "A worker does not wait for one group before it sends the next: more than one was on its way at the same time \
        (groups_on_their_way, of which the throughput needs so many at least). So a distance delays each group, and does not \
        limit how many there are.",
    seen: &[Seen::Many {
        count: Count::GroupsOnTheirWay,
        lines: &[FAR_FIVE],
        at_least: 1.5,
    }],
};

const fn grows(line: &'static str) -> Statement {
    Statement::Grows(line, At::Fewest, At::Most)
}

const fn falls(line: &'static str) -> Statement {
    Statement::Falls(line, At::Fewest)
}

const TERMS: Terms = Terms::new(BESIDE);
const FAR_TERMS: Terms = Terms::new(BESIDE_FAR);

pub(super) static FIGURES: &[Figure] = &[
    Figure {
        paper: PAPER,
        number: 2,
        section: "4.3",
        title: "throughput over workers, in groups of several sizes",
        experiment: &GROUPS,
        lines: NEAR,
        across: Across::Workers,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.3",
                "GrpSize の数がいずれの場合においても、Worker スレッドの数を増やすことにより、処理性能がスケールしている",
                "whatever the size of groups, the most workers are faster than the fewest",
                &[grows(ONE), grows(FIVE), grows(TEN), grows(TWENTY)],
                TERMS.unless(GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.3",
                "Worker スレッド数が 10 の場合では、GrpSize が 10,000 の時が…TPS が最も高く",
                "with 10 workers, groups of 10,000 are the fastest",
                &[Statement::Highest(&[TEN], At::Threads(10))],
                TERMS.unless(GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.3",
                "8.8M tps 程度の TPS を記録した",
                "with 10 workers, groups of 10,000 run 8.8 million transactions a second (within a quarter)",
                &[Statement::About(TEN, At::Threads(10), 8.8e6)],
                TERMS.cores(PAPER_CORES),
            ),
            Claim::new(
                "4.3",
                "Worker スレッドが 30 の場合では GrpSize が 5,000 のものは性能がスケールせず",
                "from 10 workers on, groups of 5,000 rise by a tenth at most",
                &[Statement::StopsRising(FIVE, 10)],
                TERMS.cores(LEADER_CORES),
            ),
            Claim::new(
                "4.3",
                "GrpSize が 20,000 の場合に…最も性能が高くなった",
                "with 30 workers, groups of 20,000 are the fastest",
                &[Statement::Highest(&[TWENTY], At::Threads(30))],
                TERMS.unless(GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.3",
                "GrpSize が 20,000 の場合におよそ 10 M tps",
                "with 30 workers, groups of 20,000 run 10 million transactions a second (within a quarter)",
                &[Statement::About(TWENTY, At::Threads(30), 10e6)],
                TERMS.cores(PAPER_CORES),
            ),
            Claim::new(
                "4.4",
                "GrpSize が 5,000 の場合には、GrpSize が 10,000、20,000 のものと比較して Worker スレッドの増加によるスケールが鈍化する",
                "from the fewest workers to the most, groups of 5,000 gain less than groups of 10,000 and of 20,000",
                &[
                    Statement::GainsOrder(&[TEN, FIVE], At::Fewest, At::Most),
                    Statement::GainsOrder(&[TWENTY, FIVE], At::Fewest, At::Most),
                ],
                TERMS.unless(GROUPS_ARE_BUSY),
            ),
        ],
        notes: &[ONE_MACHINE, LOAD, GROUP_OF_CLIENT, ONE_ON_ITS_WAY],
    },
    Figure {
        paper: PAPER,
        number: 3,
        section: "4.3",
        title: "mean round trip over workers, in groups of several sizes",
        experiment: &GROUPS,
        lines: NEAR,
        across: Across::Workers,
        value: Measure::MeanRttMs,
        claims: &[
            Claim::new(
                "4.3",
                "Worker スレッド数が 1 の時には,GrpSize が 20,000 の場合に…目標数値を満たさない値",
                "with one worker, groups of 20,000 take more than 400 ms in the mean",
                &[Statement::Over(TWENTY, At::Threads(1), GOAL_MS)],
                TERMS,
            ),
            Claim::new(
                "4.3",
                "GrpSize が 20,000 の場合に平均 RTT が約 1,600 ミリ秒",
                "with one worker, groups of 20,000 take 1,600 ms in the mean (within a quarter)",
                &[Statement::About(TWENTY, At::Threads(1), 1600.0)],
                TERMS.cores(PAPER_CORES),
            ),
            Claim::new(
                "4.3",
                "Worker スレッドを 30 に増加させることで,RTT は…目標とする 400 ミリ秒を下回る",
                "with the most workers (30 in the paper), groups of 20,000 take less than 400 ms in the mean",
                &[Statement::Below(TWENTY, At::Most, GOAL_MS)],
                TERMS.unless(GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.4",
                "Worker スレッド数を増やし…平均 RTT が大きく向上する",
                "with the workers, the mean round trip of groups becomes shorter: no step rises by more than a tenth, and it ends lower",
                &[falls(FIVE), falls(TEN), falls(TWENTY)],
                TERMS.unless(GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.4",
                "GrpSize を増やすことでコマンド 1 件あたりの RTT は長くなる",
                "with every number of workers that was measured, larger groups take longer",
                &[Statement::OrderEverywhere(&[TWENTY, TEN, FIVE])],
                TERMS,
            ),
        ],
        notes: &[ONE_MACHINE, LOAD, GROUP_OF_CLIENT],
    },
    Figure {
        paper: PAPER,
        number: 4,
        section: "4.3",
        title: "CPU use of the leader's node over time, groups of 20,000",
        experiment: &SECONDS,
        lines: BY_WORKERS,
        across: Across::Seconds,
        value: Measure::LeaderCpuPercent,
        claims: &[
            Claim::new(
                "4.3",
                "Worker スレッドの数が 1 の場合には 32 コアの平均使用率が 15%に満たない",
                "with one worker, less than 15 % in the last second",
                &[Statement::Below(W1, At::Most, 15.0)],
                TERMS.cores(LEADER_CORES),
            ),
            Claim::new(
                "4.3",
                "Worker スレッドを 5 つに増やすことによって,CPU 使用率は 40%以上",
                "with five workers, more than 40 % in the last second",
                &[Statement::Over(W5, At::Most, 40.0)],
                TERMS.cores(LEADER_CORES),
            ),
            Claim::new(
                "4.3",
                "Worker スレッドが 10 の場合では,CPU 使用率が 90%に近くなり",
                "with ten workers, 90 % in the last second (within a quarter)",
                &[Statement::About(W10, At::Most, 90.0)],
                TERMS.cores(LEADER_CORES),
            ),
            Claim::new(
                "4.3",
                "Worker スレッドが 20 以降は CPU 使用率が 90%以上まで達している",
                "with 20 and 30 workers, more than 90 % in the last second",
                &[
                    Statement::Over(W20, At::Most, 90.0),
                    Statement::Over(W30, At::Most, 90.0),
                ],
                TERMS.cores(LEADER_CORES),
            ),
            Claim::new(
                "4.3",
                "Worker スレッドが増えることで 32 コアの CPU リソースを有効に使えるようになっている",
                "with eight workers, the leader uses more than with one, in the last second",
                &[Statement::Order(&[W8, W1], At::Most)],
                TERMS.unless(NODES_ARE_BUSY),
            ),
        ],
        notes: &[ONE_MACHINE, LOAD, EACH_SECOND],
    },
    Figure {
        paper: PAPER,
        number: 5,
        section: "4.3",
        title: "throughput over workers with the distances of Japan",
        experiment: &GROUPS,
        lines: FAR,
        across: Across::Workers,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "4.3",
                "GrpSize が 20,000 で TPS が最大 10M tps 以上",
                "with the most workers, groups of 20,000 run more than 10 million transactions a second",
                &[Statement::Over(FAR_TWENTY, At::Most, 10e6)],
                FAR_TERMS.cores(PAPER_CORES),
            ),
            Claim::new(
                "4.3",
                "最大 TPS については距離遅延がない場合と比較して大きな変化はなかった",
                "at their best, groups of 20,000 are as fast with distances as without (within a quarter)",
                &[Statement::RatioOfPeaks(FAR_TWENTY, TWENTY, 1.0)],
                FAR_TERMS,
            ),
            Claim::new(
                "4.3",
                "ログ集約なしの場合では最大 TPS が 1,000tps 程度にまで大きく劣化した",
                "in groups of one, one of a worker on its way, distances leave 1,000 transactions a second or less (1,250 at \
                     most), fewer than without distances",
                &[
                    Statement::Below(FAR_ONE_WAITING, At::Most, 1250.0),
                    Statement::OrderEverywhere(&[ONE_WAITING, FAR_ONE_WAITING]),
                ],
                FAR_TERMS,
            ),
            Claim::new(
                "4.3",
                "GrpSize が 5,000 の場合では、Worker スレッド数が 1 の時の TPS が遅延なしと比べて 1/5 程度にまで劣化しており",
                "with one worker, groups of 5,000 are five times as fast without distances (within a quarter)",
                &[Statement::Ratio(FIVE, FAR_FIVE, At::Threads(1), 5.0)],
                FAR_TERMS.unless(MANY_ON_THEIR_WAY),
            ),
            Claim::new(
                "4.3",
                "Worker スレッド数を 30 まで増やした場合では、距離遅延なしと比較した性能劣化は 70%程度まで抑えられており",
                "with 30 workers, groups of 5,000 have 0.7 times the throughput without distances (within a quarter)",
                &[Statement::Ratio(FAR_FIVE, FIVE, At::Threads(30), 0.7)],
                FAR_TERMS,
            ),
            Claim::new(
                "4.3",
                "Worker スレッドを増やすことで距離遅延による影響が抑えられている",
                "with the most workers, distances slow groups of 5,000 by a smaller factor than with the fewest",
                &[Statement::RatioShrinks(
                    FIVE,
                    FAR_FIVE,
                    At::Fewest,
                    At::Most,
                )],
                FAR_TERMS.unless(MANY_ON_THEIR_WAY),
            ),
        ],
        notes: &[
            ONE_MACHINE,
            LOAD,
            GROUP_OF_CLIENT,
            DISTANCES,
            ONE_ON_ITS_WAY,
        ],
    },
    Figure {
        paper: PAPER,
        number: 6,
        section: "4.3",
        title: "mean round trip over workers with the distances of Japan",
        experiment: &GROUPS,
        lines: FAR,
        across: Across::Workers,
        value: Measure::MeanRttMs,
        claims: &[
            Claim::new(
                "4.3",
                "Worker スレッドが 1 の時には距離遅延の影響を大きく受けており,GrpSize がいずれの場合でも平均 RTT が 1,600 ミリ秒を超える",
                "with one worker, groups of every size take more than 1,600 ms in the mean, those of one with one on its way",
                &[
                    Statement::Over(FAR_ONE_WAITING, At::Threads(1), 1600.0),
                    Statement::Over(FAR_FIVE, At::Threads(1), 1600.0),
                    Statement::Over(FAR_TEN, At::Threads(1), 1600.0),
                    Statement::Over(FAR_TWENTY, At::Threads(1), 1600.0),
                ],
                FAR_TERMS.unless(MANY_ON_THEIR_WAY),
            ),
            Claim::new(
                "4.3",
                "ログ集約なしの場合は距離遅延なしの場合の平均 RTT が数ミリから数十ミリであったのに対して大幅に RTT が長くなっている",
                "in groups of one, one of a worker on its way, the mean is below 100 ms without distances, and longer with them",
                &[
                    Statement::Below(ONE_WAITING, At::Fewest, 100.0),
                    Statement::Below(ONE_WAITING, At::Most, 100.0),
                    Statement::OrderEverywhere(&[FAR_ONE_WAITING, ONE_WAITING]),
                ],
                FAR_TERMS,
            ),
            Claim::new(
                "4.3",
                "Worker スレッドを増やすことにより処理時間が短縮化され",
                "with the workers, the mean round trip becomes shorter: no step rises by more than a tenth, and it ends lower",
                &[
                    falls(FAR_ONE_WAITING),
                    falls(FAR_FIVE),
                    falls(FAR_TEN),
                    falls(FAR_TWENTY),
                ],
                FAR_TERMS.unless(FAR_GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.3",
                "Worker スレッド 30 の場合では,最も RTT の長い GrpSize が 20,000 の場合でも…目標性能を達成することができた",
                "with the most workers (30 in the paper), groups of 20,000 take less than 400 ms in the mean",
                &[Statement::Below(FAR_TWENTY, At::Most, GOAL_MS)],
                FAR_TERMS.unless(FAR_GROUPS_ARE_BUSY),
            ),
            Claim::new(
                "4.3",
                "最も RTT の長い GrpSize が 20,000 の場合でも約 110 ミリ秒",
                "with 30 workers, groups of 20,000 take 110 ms in the mean (within a quarter)",
                &[Statement::About(FAR_TWENTY, At::Threads(30), 110.0)],
                FAR_TERMS.cores(PAPER_CORES),
            ),
        ],
        notes: &[
            ONE_MACHINE,
            LOAD,
            GROUP_OF_CLIENT,
            DISTANCES,
            ONE_ON_ITS_WAY,
        ],
    },
];
