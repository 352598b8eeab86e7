//! Disks that damage data at rest: payloads of the log, on nodes that run, and images of the tables.
//!
//! - Every damaged payload has an intact copy in the log of another running node, or in its image.
//! - A node can forget acknowledged entries if a payload above its recorded persisted index is damaged. At most a minority of the nodes
//!   forgets (`raft_damage.rs`).
//! - The last frame of a stream is not damaged: above that index, the damage would look like a torn write.
//! - One image at a time is damaged, and only if another node can rebuild it, because an image may hold the only copy of truncated
//!   payloads.
//! - No disk is lost in such a run.
//!
//! All checks of other runs apply, and at the end every node has all entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use namiki_platform::disk::Disk;

use super::damaged::Frame;
use super::event::Event;
use super::node::dir;
use super::world::{MS, World};
use crate::entry::{EntryBody, LogEntry, PayloadName};

/// Frames begin at multiples of this.
const BLOCK: usize = 512;
/// Payloads of a term that may be ahead of their entries.
const AHEAD_MAX: u64 = 64;

impl World {
    /// Whether disks damage data in this run.
    pub(super) fn damages(&self) -> bool {
        self.options.damages
    }

    pub(super) fn damage(&mut self) {
        if !self.has_faults {
            return;
        }
        let pause = 100 + self.damage.random.below(1_000);
        self.after(pause * MS, Event::Damage);
        let node = self.damage.random.index(self.options.nodes);
        if self.nodes[node].running.is_none() {
            return;
        }
        if self.damage.random.chance(0.1) {
            if self.going.is_none() && self.can_forget(node) {
                self.crash(node);
                self.damage_raft_log(node, false);
            }
        } else if self.damage.random.chance(0.3) {
            self.damage_image(node);
        } else if self.damage.random.chance(0.3) {
            self.damage_all_but(node);
        } else if !self.has_damaged_image() {
            self.damage_payloads(node);
        }
    }

    /// Damages some payloads of a running node, which may crash then.
    fn damage_payloads(&mut self, node: usize) {
        for _ in 0..1 + self.damage.random.index(4) {
            self.damage_payload(node);
        }
        if self.damage.random.chance(0.5) && self.nodes[node].running.is_some() {
            self.crash(node);
        }
    }

    fn damage_payload(&mut self, node: usize) {
        let payloads = self.payloads_of(node);
        if payloads.is_empty() {
            return;
        }
        let name = payloads[self.damage.random.index(payloads.len())];
        let mut lost = self.in_frame_of(node, name).into_iter();
        if lost.all(|name| self.is_whole_elsewhere(node, name)) {
            self.damage_frame(node, name);
        }
    }

    /// The payloads that are in the frame of this one.
    fn in_frame_of(&self, node: usize, name: PayloadName) -> Vec<PayloadName> {
        let frame = self.frame_of(node, name);
        let mut payloads = self.payloads_of(node);
        payloads.retain(|it| it.worker == name.worker && self.frame_of(node, *it) == frame);
        payloads
    }

    /// Damages a payload that a node has truncated on all others, which crash then: they need the image of that node,
    /// and none of them can be elected before.
    fn damage_all_but(&mut self, node: usize) {
        let others = (0..self.options.nodes).filter(|other| *other != node);
        let others: Vec<usize> = others.collect();
        let Some(shared) = self.nodes[node].shared() else {
            return;
        };
        // An image that may go back with its disk does not count.
        let can_help = !shared.tables_lost && self.nodes[node].copy.is_none();
        // It keeps what is lost with the payloads, in the same frames.
        let is_whole = self.damage.frames.iter().all(|(it, _)| *it != node);
        let truncated = shared.truncated();
        if !can_help || !is_whole || self.has_damaged_image() || self.is_one_back() {
            return;
        }
        let store = &shared.store;
        let running = |node: usize| self.nodes[node].running.as_ref();
        let entries = |node| running(node).map_or_else(Vec::new, |it| it.parts.raft.entries());
        let in_image: BTreeSet<PayloadName> = others
            .iter()
            .flat_map(|other| entries(*other))
            .filter(|entry| entry.index <= truncated)
            .filter_map(|entry| name_of(&entry))
            .collect();
        let survives =
            |name: &PayloadName| in_image.contains(name) || store.durable_payload(*name).is_some();
        let mut payloads = self.payloads_of(others[0]);
        payloads.retain(|name| in_image.contains(name));
        payloads.retain(|name| others.iter().all(|it| self.payloads_of(*it).contains(name)));
        let Some(name) = payloads.last().copied() else {
            return;
        };
        let mut lost = others.iter().flat_map(|it| self.in_frame_of(*it, name));
        if !lost.all(|name| survives(&name)) {
            return;
        }
        for other in others {
            if self.damage_frame(other, name) && self.nodes[other].running.is_some() {
                self.crash(other);
            }
        }
    }

    /// The payloads of the entries that a node has.
    fn payloads_of(&self, node: usize) -> Vec<PayloadName> {
        let running = self.nodes[node].running.as_ref();
        let entries = running.map_or_else(Vec::new, |it| it.parts.raft.entries());
        entries.iter().filter_map(name_of).collect()
    }

    /// Damages the frame of a payload, unless it is the last one, or more than a minority would forget what it has acknowledged.
    /// Returns whether it did.
    fn damage_frame(&mut self, node: usize, name: PayloadName) -> bool {
        let (Some(frame), Some(shared)) = (self.frame_of(node, name), self.nodes[node].shared())
        else {
            return false;
        };
        let is_behind = |other: &PayloadName| {
            let other = (other.worker == name.worker).then(|| self.frame_of(node, *other));
            let other = other.flatten();
            other.is_some_and(|it| it > frame && generation(&it.0) == generation(&frame.0))
        };
        let is_last = !self.payloads_of(node).iter().any(is_behind);
        let place = shared.store.place_of(name).filter(|_| !is_last);
        let forgets = self.forgets_without(node, name);
        if !self.is_settled(node, &frame, name) || forgets && !self.can_forget(node) {
            return false;
        }
        let is_damaged = place.is_some_and(|(path, at)| self.nodes[node].damage(&path, at));
        if is_damaged {
            self.damage.frames.insert((node, frame));
            self.report.damaged_payloads += 1;
            if forgets {
                self.crash(node);
                self.nodes[node].has_forgotten = true;
            }
        }
        is_damaged
    }

    /// Whether a start cuts off an entry, which the node may have acknowledged, if the frame of this payload is damaged: stream 0 does
    /// not say that it is persisted.
    fn forgets_without(&self, node: usize, name: PayloadName) -> bool {
        let Some(running) = &self.nodes[node].running else {
            return false;
        };
        let in_frame = self.in_frame_of(node, name);
        let persisted = running.parts.shared.store.recorded_persisted();
        let entries = running.parts.raft.entries();
        let mut unrecorded = entries.iter().filter(|entry| entry.index > persisted);
        unrecorded.any(|entry| name_of(entry).is_some_and(|name| in_frame.contains(&name)))
    }

    /// Whether everything in the frame of a payload is known: a crash loses none of it, and no payload there waits for its entry.
    fn is_settled(&self, node: usize, frame: &Frame, name: PayloadName) -> bool {
        let Some(running) = &self.nodes[node].running else {
            return false;
        };
        let named = self.payloads_of(node);
        let of_worker = named.iter().filter(|it| it.worker == name.worker);
        let mut lasts: BTreeMap<u64, u64> = BTreeMap::from([(running.parts.raft.term(), 0)]);
        for name in of_worker {
            let last = lasts.entry(name.term).or_default();
            *last = name.number.max(*last);
        }
        let ahead = lasts.into_iter().flat_map(|(term, last)| {
            let number = last + 1..=last + AHEAD_MAX;
            number.map(move |number| PayloadName {
                term,
                number,
                ..name
            })
        });
        let mut frames = ahead.filter_map(|name| self.frame_of(node, name));
        running.has_acted_on_all(&self.nodes[node].disk) && !frames.any(|it| it == *frame)
    }

    /// The frame of a durable payload.
    fn frame_of(&self, node: usize, name: PayloadName) -> Option<Frame> {
        let node = &self.nodes[node];
        let (path, offset) = node.shared()?.store.place_of(name)?;
        let bytes = node.disk.read(&path).ok()?;
        let blocks = (0..=offset as usize / BLOCK).rev().map(|it| it * BLOCK);
        let mut frames = blocks.filter(|at| bytes[*at..].starts_with(b"NLF1"));
        Some((path, frames.next()?))
    }

    fn is_whole_elsewhere(&self, node: usize, name: PayloadName) -> bool {
        let payload = |node: usize| {
            let shared = self.nodes[node].shared()?;
            shared.store.durable_payload(name)
        };
        let own = payload(node);
        let mut others = (0..self.options.nodes).filter(|other| *other != node);
        others.any(|other| {
            let frame = self.frame_of(other, name);
            let is_whole = |frame| !self.damage.frames.contains(&(other, frame));
            payload(other) == own && frame.is_some_and(is_whole)
        })
    }

    /// Whether the node of the last damaged image has not started again, or has no tables.
    pub(super) fn has_damaged_image(&self) -> bool {
        self.damage.image.is_some_and(|(node, life)| {
            let node = &self.nodes[node];
            let has_tables = node.shared().is_some_and(|it| !it.tables_lost);
            node.life == life || !has_tables
        })
    }

    /// Whether another node can rebuild the tables of this one, whatever crashes.
    fn is_applied_elsewhere(&self, node: usize) -> bool {
        let applied = |node: usize| self.nodes[node].shared().map(|it| it.applied());
        let mut others = (0..self.options.nodes).filter(|other| *other != node);
        others.any(|other| {
            let Some(running) = &self.nodes[other].running else {
                return false;
            };
            let is_damaged = |name: PayloadName| {
                let frame = self.frame_of(other, name);
                frame.is_none_or(|frame| self.damage.frames.contains(&(other, frame)))
            };
            let entries = running.parts.raft.entries();
            let shared = &running.parts.shared;
            // Without an image, it can offer none before a leader is elected.
            applied(other) >= applied(node)
                && shared.truncated() > 0
                && !shared.tables_lost
                && !entries.iter().filter_map(name_of).any(is_damaged)
        })
    }

    /// Damages a file of a node's image, which may crash before.
    fn damage_image(&mut self, node: usize) {
        if self.has_damaged_image() || !self.is_applied_elsewhere(node) {
            return;
        }
        if self.damage.random.chance(0.5) {
            self.crash(node);
        }
        let disk = &self.nodes[node].disk;
        let folders = ["db", "db2"].map(|folder| dir().join(folder));
        let with_images = folders
            .iter()
            .flat_map(|dir| [dir.clone(), dir.join("image")]);
        let files: Vec<_> = with_images
            .filter_map(|dir| disk.list(&dir).ok())
            .flatten()
            .filter(|file| file.len_bytes > 0)
            .collect();
        if files.is_empty() {
            return;
        }
        let file = &files[self.damage.random.index(files.len())];
        let offset = self.damage.random.below(file.len_bytes);
        if self.nodes[node].damage(&file.path, offset) {
            self.damage.image = Some((node, self.nodes[node].life));
        }
    }
}

/// What the names of files of one generation begin with.
fn generation(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    name.split('-').next().map(str::to_owned)
}

fn name_of(entry: &LogEntry) -> Option<PayloadName> {
    match &entry.body {
        EntryBody::Group(payload) => Some(payload.name),
        _ => None,
    }
}
