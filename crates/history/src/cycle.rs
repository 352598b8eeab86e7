//! The shortest circle, and the reason for each of its arrows.

use std::collections::VecDeque;

use super::graph::{Arrow, Graph, Kind};
use super::graph_nodes::Nodes;
use super::transactions::{History, KeyId, NEVER_WRITTEN};
use super::versions::{Versions, party};
use super::violation::{Cycle, Party, Step, Why};

/// Limit on the arrows that the search follows to improve on the first circle it found. Enough to
/// be exact for any circle a person would read; a tangle of a million transactions stops at
/// "short".
const ARROWS_FOLLOWED_MAX: usize = 50_000_000;

/// Finds the circle through the fewest transactions. `circular` are the components that have one.
///
/// Returns its arrows with their sources, in order; moments of real time are among them.
pub(super) fn shortest(
    graph: &Graph,
    circular: &[Vec<u32>],
    nodes: Nodes,
) -> Option<Vec<(u32, Arrow)>> {
    let mut search = Search::new(graph, nodes, circular);
    let mut best: Option<Vec<(u32, Arrow)>> = None;
    let mut best_length = u32::MAX;
    for component in circular {
        for &start in component.iter().filter(|&&node| !nodes.is_moment(node)) {
            let affordable = search.followed < ARROWS_FOLLOWED_MAX && best_length > 2;
            if best.is_some() && !affordable {
                return best;
            }
            if let Some((length, arrows)) = search.back_to(start, best_length) {
                (best, best_length) = (Some(arrows), length);
            }
        }
    }
    best
}

/// A breadth-first search that counts transactions and passes moments for free.
struct Search<'g> {
    graph: &'g Graph,
    nodes: Nodes,
    /// The circular component of each node, or `u32::MAX`; no circle leaves its component.
    component: Vec<u32>,
    reached: Vec<Reached>,
    searches: u32,
    followed: usize,
}

/// The last visit of a node.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// Number of the search; the other fields are stale in any other search.
    search: u32,
    /// Number of transactions on the path.
    distance: u32,
    /// The arrow and its source node; nothing for the start.
    by: Option<(u32, Arrow)>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, nodes: Nodes, circular: &[Vec<u32>]) -> Self {
        let (component, reached) = if circular.is_empty() {
            (Vec::new(), Vec::new())
        } else {
            (
                vec![u32::MAX; graph.nodes()],
                vec![Reached::default(); graph.nodes()],
            )
        };
        let mut search = Self {
            graph,
            nodes,
            component,
            reached,
            searches: 0,
            followed: 0,
        };
        for (number, members) in circular.iter().enumerate() {
            for &member in members {
                search.component[member as usize] = number as u32;
            }
        }
        search
    }

    /// The shortest circle through `start` with fewer than `limit` transactions.
    fn back_to(&mut self, start: u32, mut limit: u32) -> Option<(u32, Vec<(u32, Arrow)>)> {
        self.searches += 1;
        let search = self.searches;
        let mut closed_by = None;
        let mut queue = VecDeque::from([(start, 0)]);
        self.reached[start as usize] = Reached {
            search,
            distance: 0,
            by: None,
        };
        while let Some((node, distance)) = queue.pop_front() {
            if distance > self.reached[node as usize].distance {
                continue; // Reached again by a shorter way in the meantime.
            }
            let passes_for_free = self.nodes.is_moment(node);
            let distance = distance + u32::from(!passes_for_free);
            if distance >= limit {
                continue;
            }
            for &arrow in self.graph.from(node) {
                self.followed += 1;
                let to = arrow.to as usize;
                if self.component[to] != self.component[start as usize] {
                    continue;
                }
                if arrow.to == start {
                    closed_by = Some((node, arrow));
                    limit = distance;
                    break;
                }
                let reached = &mut self.reached[to];
                if reached.search == search && reached.distance <= distance {
                    continue;
                }
                *reached = Reached {
                    search,
                    distance,
                    by: Some((node, arrow)),
                };
                if passes_for_free {
                    queue.push_front((arrow.to, distance));
                } else {
                    queue.push_back((arrow.to, distance));
                }
            }
        }
        closed_by.map(|(node, arrow)| (limit, self.path(node, arrow)))
    }

    fn path(&self, mut node: u32, last: Arrow) -> Vec<(u32, Arrow)> {
        let mut arrows = vec![(node, last)];
        while let Some((from, arrow)) = self.reached[node as usize].by {
            arrows.push((from, arrow));
            node = from;
        }
        arrows.reverse();
        arrows
    }
}

/// Finds the versions and instants behind each arrow again.
pub(super) fn explain(
    history: &History,
    versions: &Versions,
    nodes: Nodes,
    arrows: &[(u32, Arrow)],
) -> Cycle {
    let mut steps = Vec::new();
    let mut before = arrows[0].0;
    for (_, arrow) in arrows {
        // From a transaction over any number of moments to a transaction is one step.
        if nodes.is_moment(arrow.to) {
            continue;
        }
        steps.push(Step {
            before: party(history, before),
            after: party(history, arrow.to),
            why: why(history, versions, before, *arrow),
        });
        before = arrow.to;
    }
    let mut involved: Vec<u32> = arrows
        .iter()
        .map(|(node, _)| *node)
        .filter(|node| *node < nodes.initial)
        .collect();
    involved.sort_unstable();
    let transactions = involved
        .into_iter()
        .map(|node| summary(history, node))
        .collect();
    Cycle {
        steps,
        transactions,
    }
}

fn why(history: &History, versions: &Versions, before: u32, arrow: Arrow) -> Why {
    let (kind, after) = (arrow.label.kind(), arrow.to);
    let instants = |node: u32| {
        let transaction = &history.transactions[node as usize];
        (
            transaction.started.unwrap_or_default(),
            transaction.ended.unwrap_or_default(),
        )
    };
    match kind {
        Kind::Initial => return Why::InitialState,
        Kind::RealTime => {
            return Why::EndedBeforeStart {
                ended: instants(before).1,
                started: instants(after).0,
            };
        }
        Kind::ReadFrom | Kind::Overwrote | Kind::ReadOver => {}
    }
    let id = KeyId(arrow.label.key());
    let key = history.key_name(id);
    let of_key = versions.of(id);
    let after = party(history, after);
    match kind {
        Kind::ReadFrom => Why::ReadFrom {
            key,
            stamp: history.transactions[before as usize].stamp,
        },
        Kind::Overwrote => {
            let next = of_key
                .windows(2)
                .find(|pair| pair[0].writer == before && party(history, pair[1].writer) == after);
            let pair = next.expect("the arrow was drawn from these versions");
            Why::Overwrote {
                key,
                stamp: pair[0].stamp,
                overwritten_at: pair[1].stamp,
            }
        }
        _ => {
            let reads = &history.transactions[before as usize].reads;
            let found = reads
                .iter()
                .filter(|(read, _)| *read == id)
                .find_map(|&(_, stamp)| {
                    let next = of_key.get(versions.known(id, stamp)?)?;
                    (party(history, next.writer) == after).then_some((stamp, next.stamp))
                });
            let (stamp, overwritten_at) = found.expect("the arrow was drawn from this read");
            let writer = (stamp != NEVER_WRITTEN)
                .then(|| of_key.iter().find(|version| version.stamp == stamp))
                .flatten()
                .map_or(Party::Initial, |version| party(history, version.writer));
            Why::ReadOver {
                key,
                stamp,
                writer,
                overwritten_at,
            }
        }
    }
}

/// One line on what a transaction did, for the end of the story.
fn summary(history: &History, node: u32) -> String {
    const SHOWN_MAX: usize = 12;
    let list = |items: Vec<String>| match items.len() {
        0 => "nothing".to_owned(),
        all @ (SHOWN_MAX..) => {
            format!(
                "{} and {} more",
                items[..SHOWN_MAX - 1].join(", "),
                all - (SHOWN_MAX - 1)
            )
        }
        _ => items.join(", "),
    };
    let transaction = &history.transactions[node as usize];
    let reads = transaction.reads.iter();
    let reads = reads
        .map(|&(key, stamp)| format!("{}@{stamp}", history.key_name(key)))
        .collect();
    let writes = transaction
        .writes
        .iter()
        .map(|&key| history.key_name(key))
        .collect();
    let when = match (transaction.started, transaction.ended) {
        (Some(started), Some(ended)) => format!(", ran {started} to {ended}"),
        _ => String::new(),
    };
    let (id, stamp) = (transaction.id, transaction.stamp);
    format!(
        "T{id}: stamp {stamp}{when}; read {}; wrote {}",
        list(reads),
        list(writes)
    )
}
