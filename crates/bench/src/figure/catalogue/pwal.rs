//! The figures of `pwal` with measurements: writes to the device, a log per worker against a single
//! one, sizes of groups, and three kinds of transactions. These use two-phase locking and operation
//! logging, as the paper's do. Early lock release is inferred from the paper's statements and omissions
//! ([`LOCKS`]).
//!
//! In figures 9 to 11, transactions that only read are drawn twice: logged, as in the paper, and not
//! logged, as this repository runs them. The sentences are judged by the former.
//!
//! A run is 100,000 transactions, each log record has 512 bytes, and groups are of 16. Most threads
//! wait for the device, so it makes sense to have more of them than cores.
//!
//! Paper: pwal §6.1, figures 6 and 7; §6.2, figure 8; §6.3, figures 9 to 11

mod device_writes;
#[cfg(test)]
mod device_writes_tests;
#[cfg(test)]
mod kinds_tests;

use std::num::NonZeroU16;

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

const PAPER: &str = "pwal";

/// The paper's transaction manager with its log per worker, and with a single log.
const P_WAL_SPEC: &str = "S2PL(ELR)+PWAL(16)+ARIES";
const WAL_SPEC: &str = "S2PL(ELR)+SWAL(16)+ARIES";
/// The same with a log of transactions that only read.
const P_WAL_READS_SPEC: &str = "S2PL(ELR)+PWAL(16)+ARIES(reads)";
const WAL_READS_SPEC: &str = "S2PL(ELR)+SWAL(16)+ARIES(reads)";
/// The same protocol with other group sizes.
const GROUPS: [&str; 5] = [
    "S2PL(ELR)+PWAL(1)+ARIES",
    "S2PL(ELR)+PWAL(2)+ARIES",
    "S2PL(ELR)+PWAL(4)+ARIES",
    "S2PL(ELR)+PWAL(8)+ARIES",
    P_WAL_SPEC,
];

const GROUP: u32 = 16;
const RECORD_BYTES: NonZeroU16 = NonZeroU16::new(512).expect("not 0");
/// BEGIN, UPDATE, END.
const RECORDS_OF_UPDATE: u32 = 3;
const THREADS: &[u16] = &[1, 2, 4, 8, 16];
/// The number of threads in figure 10.
const THREADS_OF_KINDS: u16 = 8;

const fn experiment(name: &'static str) -> Experiment {
    Experiment {
        name,
        device: "file",
        beside: &[],
        runs: Runs::Transactions {
            threads: Threads::Waiting(THREADS),
            transactions: Transactions::InAll(100_000),
            record_bytes: RecordBytes(RecordFormat::Fixed(RECORD_BYTES)),
            sequencer: Sequencer::Cas,
        },
    }
}

static LAYOUTS: Experiment = experiment("pwal WAL and P-WAL");
static SIZES: Experiment = experiment("pwal sizes of groups");
static KINDS: Experiment = experiment("pwal kinds of transactions");

const P_WAL: &str = "P-WAL";
const WAL: &str = "WAL";
const WRITES: &str = "log writes only";

const fn line(name: &'static str, workload: Workload, spec: &'static str) -> Line {
    Line {
        name,
        work: Work::Transactions { workload, spec },
    }
}

const U1: Workload = Workload::Update(1);
const THREE: &[Line] = &[
    line(P_WAL, U1, P_WAL_SPEC),
    line(WAL, U1, WAL_SPEC),
    Line {
        name: WRITES,
        work: Work::LogWrites {
            bytes: RECORD_BYTES.get() as u32 * RECORDS_OF_UPDATE * GROUP,
            transactions: GROUP as u64,
        },
    },
];

const GROUP_1: &str = "groups of 1";
const GROUP_2: &str = "groups of 2";
const GROUP_4: &str = "groups of 4";
const GROUP_8: &str = "groups of 8";
const GROUP_16: &str = "groups of 16";

const P_R10: &str = "P-WAL, READ 10";
const P_R5U5: &str = "P-WAL, READ 5 UPDATE 5";
const P_U10: &str = "P-WAL, UPDATE 10";
const W_R10: &str = "WAL, READ 10";
const W_R5U5: &str = "WAL, READ 5 UPDATE 5";
const W_U10: &str = "WAL, UPDATE 10";
const P_UNLOGGED: &str = "P-WAL, READ 10 unlogged";
const W_UNLOGGED: &str = "WAL, READ 10 unlogged";

/// Reads of some records and updates of others: an UPDATE of the paper writes what it has not read.
const R5U5: Workload = Workload::ReadsThenUpdates(5);
const R10: Workload = Workload::Read(10);
const OF_ALL: &[Line] = &[
    line(P_R10, R10, P_WAL_READS_SPEC),
    line(P_R5U5, R5U5, P_WAL_SPEC),
    line(P_U10, Workload::Update(10), P_WAL_SPEC),
    line(W_R10, R10, WAL_READS_SPEC),
    line(W_R5U5, R5U5, WAL_SPEC),
    line(W_U10, Workload::Update(10), WAL_SPEC),
    line(P_UNLOGGED, R10, P_WAL_SPEC),
    line(W_UNLOGGED, R10, WAL_SPEC),
];
const OF_P_WAL: &[Line] = &[
    line(P_R10, R10, P_WAL_READS_SPEC),
    line(P_R5U5, R5U5, P_WAL_SPEC),
    line(P_U10, Workload::Update(10), P_WAL_SPEC),
    line(P_UNLOGGED, R10, P_WAL_SPEC),
];

const PROTOCOL: &str = "As in the paper, transactions lock in two phases and log as ARIES does: BEGIN, each \
    UPDATE with both images when it is made, END.";
const LOCKS: &str = "The paper does not say when a transaction's locks are released; here it is as soon as its END is in the \
    log buffer (ELR). A worker's group fills with the next transactions of the same worker (§4.2.3, Algorithm 2), \
    and the locks are pthread's read-write locks (§5.4): were they held until the group is durable, a worker \
    could wait for what it holds itself, and two workers for each other, and the paper has no rule for that. \
    tictoc-pwal §3.2.1 says how P-WAL acknowledges commits that have read what is not durable, by the smallest \
    flushed LSN: that is needed under early release alone.";
const IN_DRAWN_ORDER: &str = "Records are locked in the order in which they were drawn. The paper does not say what it does about \
    deadlocks, which that allows; here they are ruled out by age (wound-wait), and met_locks counts the \
    transactions that were wounded.";
const READS_ARE_LOGGED: &str = "READ 10 logs a BEGIN before its first lock and an END at its commit, as in the paper \
    (§6.3.1), and is acknowledged when the END is durable: an option for this experiment. READ 10 unlogged is how \
    transactions that only read run otherwise: they log nothing and wait for no device. It is not the paper's.";
const AHEAD: &str = "A thread runs on while its group waits, as in the paper: commits count when they are \
    acknowledged.";

const WRITING: &[Count] = &[Count::Flushes, Count::WalBytes, Count::CpuUsPerTransaction];

// Reasons why claims fail, given if the counts show them.
const ONE_GROUP_AT_A_TIME: Reason = Reason {
    text: "A single log writes one group after the other, as often with every number of threads (flushes). What a \
        second thread adds is to fill the next group meanwhile, which may gain little, or lose it by contention.",
    seen: &[Seen::Steady {
        count: Count::Flushes,
        line: WAL,
    }],
};
const TERMS: Terms = Terms::new(WRITING);

pub(super) static FIGURES: &[Figure] = &[
    device_writes::FIGURE,
    Figure {
        paper: PAPER,
        number: 6,
        section: "6.1.2",
        title: "WAL and P-WAL: time for 100,000 U-1 transactions",
        experiment: &LAYOUTS,
        lines: THREE,
        across: Across::Threads,
        value: Measure::Seconds,
        claims: &[
            Claim::new(
                "6.1.2",
                "ログの書き込みのみを行うプログラムが ioDrive 一台の性能の上限",
                "at 16 threads, WAL takes the longest, as drawn, then P-WAL, and the log's writes alone the least",
                &[Statement::Order(&[WAL, P_WAL, WRITES], At::Threads(16))],
                TERMS,
            ),
            Claim::new(
                "6.1.2",
                "同じログサイズの書き込みのみを行うプログラムと P-WAL の性能差",
                "P-WAL takes longer than the log's writes alone, as drawn with every number of threads",
                &[Statement::OrderEverywhere(&[P_WAL, WRITES])],
                TERMS,
            ),
        ],
        notes: &[PROTOCOL, LOCKS, AHEAD],
    },
    Figure {
        paper: PAPER,
        number: 7,
        section: "6.1.2",
        title: "WAL and P-WAL: throughput of U-1",
        experiment: &LAYOUTS,
        lines: THREE,
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "6.1.2",
                "従来WALではスレッド数が 1 から 2 になった時に、僅かな性能向上が見られる",
                "WAL gains from 1 thread to 2, by a quarter at most",
                &[Statement::GrowsLittle(WAL, At::Threads(1), At::Threads(2))],
                TERMS.unless(ONE_GROUP_AT_A_TIME),
            ),
            Claim::new(
                "6.1.2",
                "全体的な傾向としてはスレッド数が多くなるほど性能が低下している",
                "from 2 threads on, WAL falls: no step rises by more than a tenth, and it ends lower",
                &[Statement::Falls(WAL, At::Threads(2))],
                TERMS,
            ),
            Claim::new(
                "6.1.2",
                "P-WALでは、スレッド数の増加に伴って性能向上が見られる",
                "P-WAL rises with the threads",
                &[Statement::Rises(P_WAL, At::Most)],
                TERMS,
            ),
            Claim::new(
                "6.1.2",
                "スレッド数が 16 の時…3.23倍の性能向上が達成された",
                "at 16 threads, P-WAL is 3.23 times as fast as WAL (within a quarter)",
                &[Statement::Ratio(P_WAL, WAL, At::Threads(16), 3.23)],
                TERMS,
            ),
            Claim::new(
                "6.1.2",
                "使用したマシンのコア数 8 を超えても性能が向上している",
                "P-WAL is faster with the most threads than with as many as there are cores",
                &[Statement::Grows(P_WAL, At::Cores, At::Most)],
                TERMS,
            ),
        ],
        notes: &[PROTOCOL, LOCKS, AHEAD],
    },
    Figure {
        paper: PAPER,
        number: 8,
        section: "6.2.2",
        title: "Sizes of groups: throughput of U-1 under P-WAL",
        experiment: &SIZES,
        lines: &[
            line(GROUP_1, U1, GROUPS[0]),
            line(GROUP_2, U1, GROUPS[1]),
            line(GROUP_4, U1, GROUPS[2]),
            line(GROUP_8, U1, GROUPS[3]),
            line(GROUP_16, U1, GROUPS[4]),
        ],
        across: Across::Threads,
        value: Measure::Tps,
        claims: &[Claim::new(
            "6.2.2",
            "スレッド数に関わらず、グループ数の増加に伴って性能が向上している",
            "with every number of threads that was measured, larger groups are faster",
            &[Statement::OrderEverywhere(&[
                GROUP_16, GROUP_8, GROUP_4, GROUP_2, GROUP_1,
            ])],
            TERMS,
        )],
        notes: &[PROTOCOL, LOCKS, AHEAD],
    },
    Figure {
        paper: PAPER,
        number: 9,
        section: "6.3.2",
        title: "Three kinds of transactions: throughput",
        experiment: &KINDS,
        lines: OF_ALL,
        across: Across::Threads,
        value: Measure::Tps,
        // The paper's statements on these curves are about 8 threads: figure 10.
        claims: &[],
        notes: &[PROTOCOL, LOCKS, IN_DRAWN_ORDER, READS_ARE_LOGGED],
    },
    Figure {
        paper: PAPER,
        number: 10,
        section: "6.3.2",
        title: "Three kinds of transactions: P-WAL and WAL",
        experiment: &KINDS,
        lines: OF_ALL,
        across: Across::Kinds {
            threads: THREADS_OF_KINDS,
            kinds: &[
                "READ 10",
                "READ 5 UPDATE 5",
                "UPDATE 10",
                "READ 10 unlogged",
            ],
            bars: &[
                (P_WAL, &[P_R10, P_R5U5, P_U10, P_UNLOGGED]),
                (WAL, &[W_R10, W_R5U5, W_U10, W_UNLOGGED]),
            ],
        },
        value: Measure::Tps,
        claims: &[
            Claim::new(
                "6.3.2",
                "READ10 回のトランザクションでは 2.95 倍…性能が向上した",
                "of 10 reads, P-WAL runs 2.95 times as many as WAL (within a quarter)",
                &[Statement::Ratio(
                    P_R10,
                    W_R10,
                    At::Threads(THREADS_OF_KINDS),
                    2.95,
                )],
                TERMS,
            ),
            Claim::new(
                "6.3.2",
                "READ5回&UPDATE5回のトランザクションでは 2.06倍…性能が向上した",
                "of 5 reads and 5 updates, P-WAL runs 2.06 times as many as WAL (within a quarter)",
                &[Statement::Ratio(
                    P_R5U5,
                    W_R5U5,
                    At::Threads(THREADS_OF_KINDS),
                    2.06,
                )],
                TERMS,
            ),
            Claim::new(
                "6.3.2",
                "UPDATE10回のトランザクションでは 1.93倍性能が向上した",
                "of 10 updates, P-WAL runs 1.93 times as many as WAL (within a quarter)",
                &[Statement::Ratio(
                    P_U10,
                    W_U10,
                    At::Threads(THREADS_OF_KINDS),
                    1.93,
                )],
                TERMS,
            ),
            Claim::new(
                "6.3.2",
                "UPDATEの比率が多くなるにつれ、性能向上率が小さくなっている",
                "the more updates, the less P-WAL gains",
                &[Statement::RatiosShrink(
                    &[(P_R10, W_R10), (P_R5U5, W_R5U5), (P_U10, W_U10)],
                    At::Threads(THREADS_OF_KINDS),
                )],
                Terms::new(&[Count::CasMisses, Count::WalBytes]),
            ),
        ],
        notes: &[PROTOCOL, LOCKS, IN_DRAWN_ORDER, READS_ARE_LOGGED],
    },
    Figure {
        paper: PAPER,
        number: 11,
        section: "6.3.2",
        title: "Three kinds of transactions: failed compare-and-swaps of P-WAL",
        experiment: &KINDS,
        lines: OF_P_WAL,
        across: Across::Threads,
        value: Measure::CasMisses,
        claims: &[Claim::new(
            "6.3.2",
            "UPDATEの比率が多いトランザクションほど、スレッド数を増加させたときに CASのミス回数の増加率が高い",
            "the more updates, the more failed CAS are added from the fewest threads to the most",
            &[Statement::GainsOrder(
                &[P_U10, P_R5U5, P_R10],
                At::Fewest,
                At::Most,
            )],
            Terms::new(&[Count::CasMisses]).cores(2),
        )],
        notes: &[PROTOCOL, LOCKS, IN_DRAWN_ORDER, READS_ARE_LOGGED],
    },
];
