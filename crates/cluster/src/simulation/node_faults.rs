//! Faults of nodes and links, one after another: crashes, cut links, slow and full disks.

use super::event::Event;
use super::world::{MS, World};
use crate::fault_injection::Fault;

impl World {
    /// The next fault.
    pub(super) fn fault(&mut self) {
        if !self.has_faults {
            return;
        }
        let pause = 100 + self.random.below(1_200);
        self.after(pause * MS, Event::Fault);
        if self.is_steered() {
            return;
        }
        let node = self.random.index(self.options.nodes);
        // The leader more often than other nodes.
        let (members, _) = self.nodes.split_at(self.options.nodes);
        let leader = members.iter().position(|it| {
            it.shared()
                .is_some_and(|it| it.office.lock().term.is_some())
        });
        let node = match leader {
            Some(leader) if self.random.chance(0.4) => leader,
            _ => node,
        };
        match self.random.below(16) {
            0 | 1 => {
                let writes = self.random.below(4);
                self.crash_in_write.insert(node, writes);
            }
            2 if self.random.chance(0.5) => {
                self.crash_in_image.insert(node);
            }
            2 if self.nodes[node].running.is_some() => self.crash(node),
            3 => {
                // In one direction or both, one link or all links of a node.
                let id = self.nodes[node].id;
                let other = self.nodes[self.random.index(self.nodes.len())].id;
                let all = self.random.chance(0.5);
                let both = self.random.chance(0.5);
                for it in self.nodes.iter().map(|it| it.id) {
                    if all || it == other {
                        self.links.cut.insert((id, it));
                        if both {
                            self.links.cut.insert((it, id));
                        }
                    }
                }
            }
            4 => self.links.cut.clear(),
            9 | 10 | 12 if let Some(leader) = leader => {
                // Isolated with its clients, it collects entries that will be overwritten.
                let id = self.nodes[leader].id;
                for it in self.nodes.iter().map(|it| it.id) {
                    self.links.cut.insert((id, it));
                    self.links.cut.insert((it, id));
                }
                let pause = 400 + self.random.below(800);
                self.after(pause * MS, Event::Rejoin(leader));
            }
            6 => {
                self.links.loss = self.random.unit() * 0.1;
                self.links.doubling = self.random.unit() * 0.1;
                self.links.delay_ns_max = MS << self.random.below(6);
            }
            11 if self.nodes[node].running.is_some() => {
                // No new file can be created.
                self.nodes[node].is_full = true;
                self.nodes[node].disk.set_capacity(Some(0));
                self.report.full_disks += 1;
                let pause = 100 + self.random.below(5_000);
                self.after(pause * MS, Event::Room(node));
            }
            5 => self.lose_disk(node),
            13.. => self.begin_to_go_back(node, leader),
            7 => self.nodes[node].is_slow = !self.nodes[node].is_slow,
            8 if self.options.planted == Some(Fault::WipedNodeReturns) => {
                let wiped = self.nodes[node].wipe(self.founders);
                if wiped.is_ok() {
                    self.after(10 * MS, Event::Restart(node));
                }
            }
            // All at once.
            8 if self.random.chance(0.5) => {
                for node in 0..self.nodes.len() {
                    if self.nodes[node].running.is_some() {
                        self.crash(node);
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn crash(&mut self, node: usize) {
        self.report.crashes += 1;
        self.nodes[node].crash(&mut self.random);
        // Occasionally it crashes again during its start: each start from the same image must find
        // the same state.
        let pause = 10 + self.random.below(3_000);
        self.after(pause * MS, Event::Restart(node));
    }
}
