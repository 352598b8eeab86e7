//! A directed graph in two flat arrays, and its strongly connected components.
//!
//! A history of a million transactions has tens of millions of arrows, so an arrow is eight bytes:
//! where it points and a label from which its reason can be found again.

/// Bits of a label that hold the key.
pub(super) const KEY_BITS: u32 = 29;

/// The reason for an arrow. The two transactions and the key are enough to find the versions again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// wr: the target read what the source wrote.
    ReadFrom,
    /// ww: the target wrote the version after the source's.
    Overwrote,
    /// rw: the target wrote the version after the one the source read.
    ReadOver,
    /// The source ended before the target started; the key means nothing.
    RealTime,
    /// The source is the initial state; the key means nothing.
    Initial,
}

/// A [`Kind`] and a key in one word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Label(u32);

impl Label {
    pub(super) fn new(kind: Kind, key: u32) -> Self {
        Self((kind as u32) << KEY_BITS | key)
    }

    pub(super) fn kind(self) -> Kind {
        match self.0 >> KEY_BITS {
            0 => Kind::ReadFrom,
            1 => Kind::Overwrote,
            2 => Kind::ReadOver,
            3 => Kind::RealTime,
            _ => Kind::Initial,
        }
    }

    pub(super) fn key(self) -> u32 {
        self.0 & ((1 << KEY_BITS) - 1)
    }
}

/// One arrow out of a known node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrow {
    pub(super) to: u32,
    pub(super) label: Label,
}

/// The arrows of all nodes, grouped by source.
pub(super) struct Graph {
    first: Vec<u32>,
    arrows: Vec<Arrow>,
}

impl Graph {
    /// Runs `draw` twice, to count and then to place; it must name the same arrows both times.
    pub(super) fn build(nodes: usize, draw: impl Fn(&mut dyn FnMut(u32, u32, Label))) -> Self {
        let mut first = vec![0_u32; nodes + 1];
        draw(&mut |from, _, _| first[from as usize + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut free = first.clone();
        let mut arrows = vec![Arrow::default(); first[nodes] as usize];
        draw(&mut |from, to, label| {
            let slot = &mut free[from as usize];
            arrows[*slot as usize] = Arrow { to, label };
            *slot += 1;
        });
        Self { first, arrows }
    }

    pub(super) fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    pub(super) fn arrows(&self) -> usize {
        self.arrows.len()
    }

    pub(super) fn from(&self, node: u32) -> &[Arrow] {
        let node = node as usize;
        &self.arrows[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// The component of every node. Components are numbered against the arrows: an arrow between two
    /// components always points to the smaller number.
    ///
    /// Tarjan's algorithm with its own stack, because a chain of a million transactions would
    /// overflow the thread's.
    pub(super) fn components(&self) -> Components {
        const UNSEEN: u32 = u32::MAX;
        let nodes = self.nodes();
        let mut seen_at = vec![UNSEEN; nodes];
        let mut lowest = vec![0_u32; nodes];
        let mut of = vec![UNSEEN; nodes];
        let mut open: Vec<u32> = Vec::new();
        let mut path: Vec<(u32, u32)> = Vec::new();
        let mut clock = 0;
        let mut count = 0;
        for root in 0..nodes as u32 {
            if seen_at[root as usize] != UNSEEN {
                continue;
            }
            path.push((root, 0));
            while let Some((node, next)) = path.last_mut() {
                let at = *node as usize;
                if *next == 0 && seen_at[at] == UNSEEN {
                    seen_at[at] = clock;
                    lowest[at] = clock;
                    clock += 1;
                    open.push(*node);
                }
                if let Some(arrow) = self.from(*node).get(*next as usize) {
                    *next += 1;
                    let to = arrow.to as usize;
                    if seen_at[to] == UNSEEN {
                        path.push((arrow.to, 0));
                    } else if of[to] == UNSEEN {
                        lowest[at] = lowest[at].min(seen_at[to]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    let parent = *parent as usize;
                    lowest[parent] = lowest[parent].min(lowest[at]);
                }
                if lowest[at] == seen_at[at] {
                    while let Some(member) = open.pop() {
                        of[member as usize] = count;
                        if member as usize == at {
                            break;
                        }
                    }
                    count += 1;
                }
            }
        }
        Components {
            of,
            count: count as usize,
        }
    }
}

/// The component of each node.
pub(super) struct Components {
    pub(super) of: Vec<u32>,
    count: usize,
}

impl Components {
    /// The members of every component with more than one, smallest component first.
    pub(super) fn circular(&self) -> Vec<Vec<u32>> {
        let mut size = vec![0_u32; self.count];
        for &component in &self.of {
            size[component as usize] += 1;
        }
        let mut members: std::collections::HashMap<u32, Vec<u32>> = Default::default();
        for (node, component) in self.of.iter().enumerate() {
            if size[*component as usize] > 1 {
                members.entry(*component).or_default().push(node as u32);
            }
        }
        let mut circular: Vec<_> = members.into_values().collect();
        circular.sort_unstable_by_key(|members| (members.len(), members[0]));
        circular
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: usize, arrows: &[(u32, u32)]) -> Graph {
        Graph::build(nodes, |draw| {
            for &(from, to) in arrows {
                draw(from, to, Label::default());
            }
        })
    }

    #[test]
    fn a_label_keeps_kind_and_key() {
        let kinds = [
            Kind::ReadFrom,
            Kind::Overwrote,
            Kind::ReadOver,
            Kind::RealTime,
            Kind::Initial,
        ];
        for kind in kinds {
            for key in [0, 1, (1 << KEY_BITS) - 1] {
                let label = Label::new(kind, key);
                assert_eq!((label.kind(), label.key()), (kind, key));
            }
        }
    }

    #[test]
    fn components_are_numbered_against_the_arrows() {
        let graph = graph(6, &[(0, 1), (1, 2), (2, 1), (2, 3), (4, 0), (3, 5)]);
        let components = graph.components();
        assert_eq!(components.of[1], components.of[2]);
        for (from, to) in [(0, 1), (2, 3), (4, 0), (3, 5)] {
            assert!(components.of[from] > components.of[to], "{from} -> {to}");
        }
        assert_eq!(components.circular(), [vec![1, 2]]);
    }

    #[test]
    fn a_chain_of_a_million_does_not_overflow_the_stack() {
        let nodes = 1_000_000;
        let graph = Graph::build(nodes, |draw| {
            for node in 1..nodes as u32 {
                draw(node - 1, node, Label::default());
            }
        });
        assert!(graph.components().circular().is_empty());
    }
}
