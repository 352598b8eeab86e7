//! Figure 2: writes to the device alone, sequential and random, by one writer and by 16, over the
//! bytes of a write.
//!
//! The paper's text has neither the block sizes nor the size of the area. The line of 16 sequential
//! writers is ours: it is how P-WAL writes, and shows whether it is the places or the number of
//! writers that decides.
//!
//! Paper: pwal §3.2, figure 2

use super::super::super::claim::{At, Claim, Statement, Terms};
use super::super::super::definition::{
    Across, Experiment, Figure, Line, Runs, Work, WriteOrder, WriteWork,
};
use super::super::super::measure::Measure;
use super::super::super::run_row::Count;
use super::PAPER;

static WRITES: Experiment = Experiment {
    name: "pwal writes to the device",
    device: "file",
    beside: &[],
    runs: Runs::Writes {
        bytes: &[512, 4096, 32_768, 262_144],
        seconds: 1,
    },
};

const WRITERS: u16 = 16;

pub(super) const SEQUENTIAL: &str = "sequential, 1 writer";
pub(super) const RANDOM: &str = "random, 1 writer";
pub(super) const RANDOM_16: &str = "random, 16 writers";
pub(super) const SEQUENTIAL_16: &str = "sequential, 16 writers";

const fn line(name: &'static str, order: WriteOrder, writers: u16) -> Line {
    Line {
        name,
        work: Work::Writes(WriteWork { writers, order }),
    }
}

const LINES: &[Line] = &[
    line(SEQUENTIAL, WriteOrder::Sequential, 1),
    line(RANDOM, WriteOrder::Random, 1),
    line(RANDOM_16, WriteOrder::Random, WRITERS),
    line(SEQUENTIAL_16, WriteOrder::Sequential, WRITERS),
];

const ALL_SIZES: &str = "The paper's text does not give its block sizes. Here they go from 512 bytes, the size of its log \
    records, to 262,144, by eights; a sentence without a size is about all of them.";
const AREA: &str = "All writers of a line together write over the same number of bytes, each in a file of its own, or in a \
    part of its own of a device (--device raw:PATH). Each write waits until it is durable.";
const SEQUENTIAL_TOO: &str =
    "The line of 16 sequential writers is not in the paper: it is how P-WAL writes.";

const TERMS: Terms = Terms::new(&[Count::Operations, Count::CpuUsPerIo]);

pub(super) const FIGURE: Figure = Figure {
    paper: PAPER,
    number: 2,
    section: "3.2",
    title: "Sequential and random writes to the device",
    experiment: &WRITES,
    lines: LINES,
    across: Across::WriteBytes,
    value: Measure::MegabytesPerSecond,
    claims: &[
        Claim::new(
            "3.2",
            "ブロックサイズが大きくなるにつれ、スループット性能は向上している",
            "the larger the blocks, the higher the throughput: no step lowers it by more than a tenth, and it ends higher",
            &[
                Statement::Climbs(SEQUENTIAL, At::Fewest),
                Statement::Climbs(RANDOM, At::Fewest),
                Statement::Climbs(RANDOM_16, At::Fewest),
            ],
            TERMS,
        ),
        Claim::new(
            "3.2",
            "シーケンシャルライトとランダムライト（スレッド数＝ 1）の性能差はほとんどない",
            "with one writer, sequential and random writes are within a tenth of each other at every size",
            &[
                Statement::NowhereAbove(SEQUENTIAL, RANDOM),
                Statement::NowhereAbove(RANDOM, SEQUENTIAL),
            ],
            TERMS,
        ),
        Claim::new(
            "3.2",
            "ブロックサイズが小さい場合、…ランダムライト（スレッド数＝ 16）は最大 6.13 倍のスループット性能を発揮する",
            "16 random writers reach 6.13 times the throughput of one (within a quarter), and gain more in the smallest \
             blocks than in the largest",
            &[
                Statement::LargestRatio(RANDOM_16, RANDOM, 6.13),
                Statement::RatioShrinks(RANDOM_16, RANDOM, At::Fewest, At::Most),
            ],
            TERMS,
        ),
        Claim::new(
            "3.2",
            "並列ランダムライトがシーケンシャルライトよりも高いスループット性能を持つ",
            "16 random writers are faster than one sequential writer in the smallest blocks, and at no size slower by more \
             than a tenth",
            &[
                Statement::Order(&[RANDOM_16, SEQUENTIAL], At::Fewest),
                Statement::NowhereAbove(SEQUENTIAL, RANDOM_16),
            ],
            TERMS,
        ),
    ],
    notes: &[ALL_SIZES, AREA, SEQUENTIAL_TOO],
};
