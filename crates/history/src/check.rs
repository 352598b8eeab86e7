//! From a history to a verdict.

use super::cycle;
use super::graph::{Graph, Kind, Label};
use super::graph_nodes::Nodes;
use super::real_time_order::Moments;
use super::transactions::{History, KeyId, NEVER_WRITTEN};
use super::versions::{INITIAL, Versions, party};
use super::violation::{Party, Violation};

/// The consistency level that the engine promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Some serial order explains every read.
    Serializable,
    /// And that order never contradicts the clock: a transaction that ended before another started comes
    /// first. Transactions without instants are ordered by their data only.
    StrictlySerializable,
}

/// The proof that a history keeps its promise, with counts of its conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// A serial order of all transactions (their ids) with the same reads and the same final state.
    pub order: Vec<u64>,
    /// Number of versions that the transactions and the initial state wrote.
    pub versions: usize,
    /// Reads of a version that another transaction of the history wrote.
    pub reads_from: usize,
    /// Reads of a version that another transaction overwrote: the conflicts that only validation can
    /// order. A test that wants contention asserts that this is large.
    pub reads_overwritten: usize,
    /// Total number of arrows.
    pub arrows: usize,
}

/// Decides whether `history` keeps `promise`.
///
/// Takes time and memory proportional to the number of reads and writes (except for sorting them).
///
/// # Errors
/// The first thing found wrong with the record itself (two writers of one version, a read of a
/// version that no committed transaction wrote, …), else the shortest circle found.
pub fn check(history: &History, promise: Promise) -> Result<Proof, Violation> {
    require_distinct_ids(history)?;
    let versions = Versions::collect(history)?;
    let known = require_known_reads(history, &versions)?;
    let moments = match promise {
        Promise::Serializable => Moments::none(),
        Promise::StrictlySerializable => Moments::of(&history.transactions)?,
    };

    let nodes = Nodes::of(history, &moments);
    let graph = Graph::build(nodes.count, |draw| {
        draw_writes(history, &versions, nodes, draw);
        draw_reads(history, &versions, &known, nodes, draw);
        moments.draw(nodes.moments, draw);
    });
    let components = graph.components();
    if let Some(arrows) = cycle::shortest(&graph, &components.circular(), nodes) {
        return Err(Violation::Cycle(cycle::explain(
            history, &versions, nodes, &arrows,
        )));
    }

    let mut order: Vec<u32> = (0..nodes.initial).collect();
    order.sort_unstable_by_key(|&node| std::cmp::Reverse(components.of[node as usize]));
    let (reads_from, reads_overwritten) = count_conflicts(&graph, nodes);
    Ok(Proof {
        order: order
            .into_iter()
            .map(|node| history.transactions[node as usize].id)
            .collect(),
        versions: versions.len(),
        reads_from,
        reads_overwritten,
        arrows: graph.arrows(),
    })
}

fn require_distinct_ids(history: &History) -> Result<(), Violation> {
    let mut ids: Vec<u64> = history
        .transactions
        .iter()
        .map(|transaction| transaction.id)
        .collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Violation::SameIdTwice { id: pair[0] }),
        None => Ok(()),
    }
}

/// For every read, in order, the number of versions of its key that its reader knew of.
fn require_known_reads(history: &History, versions: &Versions) -> Result<Vec<u32>, Violation> {
    let mut known = Vec::new();
    for transaction in &history.transactions {
        for &(key, stamp) in &transaction.reads {
            let Some(count) = versions.known(key, stamp) else {
                return Err(Violation::UnknownVersion {
                    reader: transaction.id,
                    key: history.key_name(key),
                    stamp,
                    neighbours: neighbours(history, versions, key, stamp),
                });
            };
            known.push(count as u32);
        }
    }
    Ok(known)
}

/// The versions just below and just above a stamp that names none.
fn neighbours(
    history: &History,
    versions: &Versions,
    key: KeyId,
    stamp: u64,
) -> [Option<(Party, u64)>; 2] {
    let of_key = versions.of(key);
    let above = of_key.partition_point(|version| version.stamp < stamp);
    [above.checked_sub(1), Some(above)].map(|at| {
        let version = of_key.get(at?)?;
        Some((party(history, version.writer), version.stamp))
    })
}

/// Every version comes before the next one of its key.
fn draw_writes(
    history: &History,
    versions: &Versions,
    nodes: Nodes,
    draw: &mut dyn FnMut(u32, u32, Label),
) {
    for key in 0..history.names.len() as u32 {
        for pair in versions.of(KeyId(key)).windows(2) {
            let (before, after) = (pair[0].writer, pair[1].writer);
            if before != INITIAL {
                draw_to_writer(before, after, Label::new(Kind::Overwrote, key), nodes, draw);
            }
        }
    }
}

/// Every read comes after the version it saw and before the next one.
fn draw_reads(
    history: &History,
    versions: &Versions,
    known: &[u32],
    nodes: Nodes,
    draw: &mut dyn FnMut(u32, u32, Label),
) {
    let mut known = known.iter();
    for (reader, transaction) in history.transactions.iter().enumerate() {
        let reader = reader as u32;
        for (&(key, stamp), &known) in transaction.reads.iter().zip(known.by_ref()) {
            let of_key = versions.of(key);
            if stamp != NEVER_WRITTEN {
                let writer = of_key[known as usize - 1].writer;
                if writer != reader && writer != INITIAL {
                    draw(writer, reader, Label::new(Kind::ReadFrom, key.0));
                }
            }
            if let Some(next) = of_key.get(known as usize)
                && next.writer != reader
            {
                let label = Label::new(Kind::ReadOver, key.0);
                draw_to_writer(reader, next.writer, label, nodes, draw);
            }
        }
    }
}

/// The initial state comes before all. Drawing that only for the transactions that have to be before *it*
/// closes exactly the same cycles.
fn draw_to_writer(
    from: u32,
    writer: u32,
    label: Label,
    nodes: Nodes,
    draw: &mut dyn FnMut(u32, u32, Label),
) {
    if writer == INITIAL {
        draw(from, nodes.initial, label);
        draw(nodes.initial, from, Label::new(Kind::Initial, 0));
    } else {
        draw(from, writer, label);
    }
}

fn count_conflicts(graph: &Graph, nodes: Nodes) -> (usize, usize) {
    let (mut reads_from, mut reads_overwritten) = (0, 0);
    for node in 0..nodes.initial {
        for arrow in graph.from(node) {
            match arrow.label.kind() {
                Kind::ReadFrom => reads_from += 1,
                Kind::ReadOver => reads_overwritten += 1,
                Kind::Overwrote | Kind::RealTime | Kind::Initial => {}
            }
        }
    }
    (reads_from, reads_overwritten)
}
