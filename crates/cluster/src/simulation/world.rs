//! Virtual time, and everything that happens in it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namiki_platform::seeded_random::Random;

use super::back_plan::Going;
use super::checks::Checks;
use super::client::SimClient;
use super::damaged::Damage;
use super::event::Event;
use super::network::{Links, Outbox};
use super::node::{Part, SimNode, addresses_of};
use super::options::SimOptions;
use super::report::SimReport;
use super::session_users::{FIRST_USER, SessionUser, USERS, client_name, small_limits};
use super::small_logs::SmallLogs;
use super::workload::{ACCOUNTS_TABLE, OPENING_BALANCE};
use crate::control::SessionLimits;
use crate::entry::PayloadRef;
use crate::events::{CopyEvent, ImageEvent};
use crate::failure::NodeFailure;
use crate::fault_injection::FaultInjection;
use crate::flow_control::Pace;
use crate::groups::producer::RequestLimits;
use crate::groups::worker::GroupOptions;
use crate::image::checkpointer::ImageOptions;
use crate::metrics::Count;
use crate::network::{ConnectionId, Inbox, NodeId};
use crate::node::NodeOptions;
use crate::raft::RaftEvent;
use crate::shared::Shared;

pub(super) const MS: u64 = 1_000_000;

pub(super) struct World {
    pub(super) options: SimOptions,
    pub(super) random: Random,
    now: u64,
    /// By time, and then by the order in which they were scheduled.
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    /// The current nodes, then those that have been replaced and still have their disks.
    pub(super) nodes: Vec<SimNode>,
    /// Scheduled parts, by node and life.
    scheduled: BTreeSet<(usize, u64, Part)>,
    pub(super) outbox: Outbox,
    pub(super) links: Links,
    pub(super) clients: Vec<SimClient>,
    pub(super) session_limits: SessionLimits,
    pub(super) session_users: Vec<SessionUser>,
    pub(super) checks: Checks,
    /// Number of entries that each node is known to have applied in its life.
    pub(super) seen: Vec<(u64, u64)>,
    /// Nodes that will crash in a write, with the number of writes before it.
    pub(super) crash_in_write: BTreeMap<usize, u64>,
    /// Nodes that will crash while they write the next image.
    pub(super) crash_in_image: BTreeSet<usize>,
    /// The disk that goes back.
    pub(super) going: Option<Going>,
    pub(super) has_faults: bool,
    pub(super) report: SimReport,
    pub(super) damage: Damage,
    /// Members with which the cluster began.
    pub(super) founders: usize,
    /// Decisions on members.
    pub(super) member_changes: Random,
    /// The node that is being removed.
    pub(super) removing: Option<NodeId>,
}

/// Simulates a cluster.
///
/// # Errors
/// A sentence about the violated check.
pub fn run(options: &SimOptions) -> Result<SimReport, String> {
    let mut world = World::new(options)?;
    world.run_faults()?;
    world.run_healed()?;
    world.finish()
}

impl World {
    fn new(options: &SimOptions) -> Result<Self, String> {
        let mut random = Random::stream(options.seed, 2);
        let mut member_changes = Random::stream(options.seed, 7);
        let founders = match options.nodes {
            all if !options.changes_members => all,
            all => 1 + 2 * member_changes.index(all / 2),
        };
        let members: Vec<_> = (1..=founders as u64).map(NodeId::first).collect();
        let mut nodes = Vec::new();
        let images = 20 << random.below(6);
        let mut session_limits = SessionLimits::default();
        if options.few_sessions {
            let mut random = Random::stream(options.seed, 8);
            session_limits = small_limits(options.clients, &mut random);
        }
        // If one node alone truncates its log, all others can lose a payload that it has in its image.
        let often = (options.damages && random.chance(0.5)).then(|| random.index(options.nodes));
        for number in 1..=options.nodes {
            let images = match often {
                Some(often) if often + 1 == number => 20,
                Some(_) => 100_000,
                None => images,
            };
            let node_options = NodeOptions {
                election_timeout: Duration::from_millis(300),
                heartbeat: Duration::from_millis(60),
                images: ImageOptions {
                    entries: images,
                    // While an image is written, no simulated time passes and no log is written.
                    bytes_per_second_min: NonZeroU64::MAX,
                    ..ImageOptions::default()
                },
                groups: GroupOptions {
                    commands: 1 + random.index(12),
                    wait_ns: random.below(8) * MS,
                    in_flight_max: 1 + random.index(8),
                    payload_bytes: 200 << random.below(8),
                },
                limits: RequestLimits {
                    sessions: session_limits,
                    ..RequestLimits::default()
                },
                cache_bytes: 16 << random.below(11),
                seed: options.seed,
                addresses: (1..=founders as u64)
                    .chain([number as u64])
                    .map(|it| (it, addresses_of(it)))
                    .collect(),
                planted: FaultInjection::of(options.planted),
                ..NodeOptions::default()
            };
            let id = NodeId::first(number as u64);
            let node = SimNode::create(id, founders, options.workers, node_options);
            let mut node = node.map_err(|error| error.to_string())?;
            // It has no directory yet.
            node.is_wiped = number > founders;
            nodes.push(node);
        }
        let limited = options.small_logs.nodes(options.nodes);
        let mut room = Random::stream(options.seed, 4);
        for node in &mut nodes[..limited] {
            node.log_bytes_max = Some(SmallLogs::limit(options.workers, &mut room));
        }
        let clients = (0..options.clients).map(|number| {
            let random = Random::stream(options.seed, 100 + number as u64);
            SimClient::new(number as u64, options.accounts, options.nodes, random)
        });
        let users = if options.few_sessions { USERS } else { 0 };
        let session_users = (0..users).map(|user| {
            let random = Random::stream(options.seed, 20 + user as u64);
            SessionUser::new(user, options.nodes, random)
        });
        let mut world = Self {
            session_limits,
            session_users: session_users.collect(),
            links: Links {
                delay_ns_max: MS << random.below(5),
                ..Links::default()
            },
            seen: vec![(0, 0); options.nodes],
            clients: clients.collect(),
            options: options.clone(),
            random,
            now: 0,
            events: BTreeMap::new(),
            next_event: 0,
            nodes,
            scheduled: BTreeSet::new(),
            outbox: Outbox::default(),
            checks: Checks::new(&members),
            crash_in_write: BTreeMap::new(),
            crash_in_image: BTreeSet::new(),
            going: None,
            has_faults: false,
            report: SimReport::default(),
            damage: Damage::new(options.seed),
            founders,
            member_changes,
            removing: None,
        };
        for node in 0..options.nodes {
            world.start(node)?;
        }
        for client in 0..options.clients {
            world.after(MS, Event::Client(client));
        }
        for user in 0..world.session_users.len() {
            world.after(MS, Event::SessionUser(user));
        }
        Ok(world)
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn after(&mut self, delay_ns: u64, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.events.insert((self.now + delay_ns, number), event);
    }

    fn run_faults(&mut self) -> Result<(), String> {
        self.has_faults = true;
        let until = self.options.faults_ms * MS;
        self.after(500 * MS, Event::Fault);
        if self.damages() {
            self.after(700 * MS, Event::Damage);
        }
        if self.options.changes_members {
            self.after(300 * MS, Event::ChangeMembers);
        }
        while self.now < until {
            self.step()?;
        }
        Ok(())
    }

    /// Runs without faults: in the end everything must be answered, and every node must have
    /// everything.
    fn run_healed(&mut self) -> Result<(), String> {
        self.has_faults = false;
        self.links.cut.clear();
        (self.links.loss, self.links.doubling) = (0.0, 0.0);
        self.crash_in_write.clear();
        self.crash_in_image.clear();
        self.going = None;
        self.retire();
        self.leave_unfinished_copy();
        for node in 0..self.nodes.len() {
            self.nodes[node].is_slow = false;
            (self.nodes[node].is_full, self.nodes[node].is_stuck) = (false, false);
            self.nodes[node].disk.set_capacity(None);
            if self.nodes[node].running.is_none() && !self.nodes[node].is_wiped {
                self.after(MS, Event::Restart(node));
            }
        }
        for client in &mut self.clients {
            client.is_finishing = true;
        }
        for user in &mut self.session_users {
            user.is_finishing = true;
        }
        let until = self.now + 60_000 * MS;
        while !self.is_quiet() {
            if self.now > until {
                return Err(self.describe());
            }
            self.step()?;
        }
        Ok(())
    }

    /// A node crashes while it copies an image that it does not need any more afterwards.
    fn leave_unfinished_copy(&mut self) {
        let node = self.random.index(self.options.nodes);
        if self.nodes[node].running.is_some() {
            self.crash(node);
        }
        self.nodes[node].leave_unfinished_copy();
    }

    fn is_quiet(&self) -> bool {
        let clients = self.clients.iter().all(SimClient::is_idle);
        let clients = clients && self.session_users.iter().all(SessionUser::is_idle);
        let has_all = |node: &SimNode| {
            node.is_wiped
                || node.shared().is_some_and(|it| {
                    let view = it.view.lock();
                    let all = view.last == view.committed && view.leader.is_some();
                    let all = all && !it.tables_lost;
                    let all = all && it.applied() == view.last;
                    let has_all = all && it.applied() == self.checks.applied();
                    // Copies of images that are not needed any more are removed.
                    has_all && it.store.has_unfinished_copy().is_ok_and(|has| !has)
                })
        };
        let (members, _) = self.nodes.split_at(self.options.nodes);
        clients && members.iter().all(has_all) && self.all_members_vote()
    }

    /// Describes a cluster that makes no progress.
    fn describe(&self) -> String {
        let mut text = String::from("without faults for a minute, and not everything is answered:");
        for node in &self.nodes {
            let view = node
                .shared()
                .map(|it| (it.view.lock().clone(), it.applied()));
            let members = node.shared().map(|it| it.membership());
            text.push_str(&format!("\n  {:?}: {view:?}, {members:?}", node.id));
        }
        for client in self.clients.iter().filter(|it| !it.is_idle()) {
            let pending: Vec<_> = client.pending.keys().collect();
            text.push_str(&format!(
                "\n  client {} waits for {pending:?}",
                client.number
            ));
        }
        text
    }

    fn finish(mut self) -> Result<SimReport, String> {
        for node in &self.nodes {
            if let Some(shared) = node.shared() {
                let applied = shared.applied();
                self.checks.state(node.id, applied, state_hash(shared))?;
                let view = shared.replica.view().map_err(|error| error.to_string())?;
                self.checks.rows(node.id, &view, applied)?;
            }
        }
        let applied = self.checks.applied();
        if let Some((sum, accounts)) = self.checks.model.sum(ACCOUNTS_TABLE, applied) {
            let expected = accounts * OPENING_BALANCE;
            if sum != expected {
                return Err(format!("all accounts together have {sum}, not {expected}"));
            }
        }
        self.report.leaders = self.checks.leader_changes;
        self.report.acknowledged = self.checks.acknowledged;
        self.report.reads = self.checks.reads;
        self.report.fates = self.checks.fates;
        self.report.scans = self.checks.scans;
        self.report.deletions = self.checks.model.deletions;
        self.report.drops = self.checks.model.drops;
        self.report.after_drop = self.checks.model.after_drop;
        self.report.replacements = self.checks.replacements();
        self.report.entries = self.checks.applied();
        self.report.simulated_ms = self.now / MS;
        Ok(self.report)
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(((at, _), event)) = self.events.pop_first() else {
            return Err("nothing is left to happen".to_owned());
        };
        self.now = at;
        self.report.trace = event.traced(self.now, self.report.trace);
        match event {
            Event::Tick { node, life } => self.tick(node, life),
            Event::Run { node, life, part } => self.run_part(node, life, part)?,
            Event::Deliver { from, to, message } => self.receive(from, to, message)?,
            Event::Request {
                client,
                node,
                request,
            } => {
                if let Some(running) = &self.nodes[node].running {
                    let connection = ConnectionId(client as u64);
                    let shared = &running.parts.shared;
                    let commands = || shared.office.lock().commands_in_flight();
                    let before = commands();
                    running
                        .inbox
                        .request(connection, &client_name(client), request);
                    if commands() > before && shared.flow_control.show().0 == Pace::Refused {
                        let id = self.nodes[node].id;
                        return Err(format!(
                            "{id:?} has accepted commands without room for them"
                        ));
                    }
                }
            }
            Event::Respond { client, response } if client >= FIRST_USER => {
                self.answer_session_user(client - FIRST_USER, response)?;
            }
            Event::Respond { client, response } => {
                let (answered, sent) = self.clients[client].take(response, self.now)?;
                if let Some(answered) = answered {
                    self.checks.answered(answered)?;
                }
                self.send_requests(client, sent);
            }
            Event::Client(client) => {
                if self.has_faults && self.random.chance(0.003) {
                    self.replace_client(client);
                }
                let floor = self.checks.done;
                let sent = self.clients[client].act(self.now, floor);
                self.send_requests(client, sent);
                let pause = 1 + self.random.below(40);
                self.after(pause * MS, Event::Client(client));
            }
            Event::SessionUser(user) => self.act_on_sessions(user),
            Event::Fault => self.fault(),
            Event::Room(node) => {
                self.nodes[node].is_full = false;
                self.nodes[node].disk.set_capacity(None);
            }
            Event::Rejoin(node) => {
                self.links.cut.clear();
                let writes = self.random.below(4);
                if self.has_faults {
                    self.crash_in_write.insert(node, writes);
                }
            }
            Event::Restart(node) => self.start(node)?,
            Event::Damage => self.damage(),
            Event::LoseDisk(node) => self.lose_disk(node),
            Event::AskToReplace(node) => self.ask_to_replace(node),
            Event::ChangeMembers => self.change_members(),
            Event::AskToAdd(node) => self.ask_to_add(node),
            Event::AskToRemove(node) => self.ask_to_remove(node),
            Event::Back(step) => self.go_on_back(step),
        }
        self.deliver();
        self.schedule();
        Ok(())
    }

    /// Schedules the parts that have work.
    fn schedule(&mut self) {
        for node in 0..self.nodes.len() {
            let life = self.nodes[node].life;
            for part in self.nodes[node].ready() {
                if !self.scheduled.insert((node, life, part)) {
                    continue;
                }
                let delay = match part {
                    _ if self.nodes[node].waits_for_room(part) => {
                        self.report.waits_for_room += 1;
                        (5 + self.random.below(10)) * MS
                    }
                    // Some tables are large.
                    Part::Loading => self.random.below(4) * self.random.below(500 * MS),
                    Part::RaftWriter | Part::PayloadWriter(_) if self.nodes[node].is_stuck => {
                        5_000 * MS
                    }
                    Part::RaftWriter | Part::PayloadWriter(_) if self.nodes[node].is_slow => {
                        self.random.below(400 * MS)
                    }
                    Part::PayloadWriter(_) if self.options.slow_payloads => {
                        self.random.below(40 * MS)
                    }
                    Part::RaftWriter | Part::PayloadWriter(_) => 50_000 + self.random.below(MS),
                    _ => self.random.below(100_000),
                };
                self.after(delay, Event::Run { node, life, part });
            }
        }
    }

    fn tick(&mut self, node: usize, life: u64) {
        if self.nodes[node].life != life {
            return;
        }
        if let Some(running) = &self.nodes[node].running {
            let shared = &running.parts.shared;
            match shared.flow_control.show().0 {
                Pace::Open => {}
                Pace::Slowed => self.report.slowed_ticks[0] += 1,
                Pace::Refused => self.report.slowed_ticks[1] += 1,
            }
            shared.raft.put(RaftEvent::Applied(shared.applied()));
            shared.raft.put(RaftEvent::Tick);
            shared.images.put(ImageEvent::Look);
            if running.parts.image_receiver.is_waiting() {
                shared.copies.put(CopyEvent::Tick);
            }
            // Clocks run at different speeds.
            let delay = 24 * MS + (node as u64 * 3_500_000) % (12 * MS);
            self.after(delay, Event::Tick { node, life });
        }
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        let place = &mut self.nodes[node];
        if place.is_wiped || place.running.is_some() {
            return Ok(());
        }
        (place.start(&self.outbox)).map_err(|error| format!("{:?}: {error}", place.id))?;
        self.check_logs(node)?;
        let place = &self.nodes[node];
        let life = place.life;
        let applied = place.shared().map_or(0, |shared| shared.applied());
        self.seen[node] = (life, applied);
        let lost = place.shared().is_some_and(|shared| shared.tables_lost);
        self.report.tables_lost += usize::from(lost);
        if let Some(running) = &place.running {
            let members = running.parts.raft.membership();
            self.checks.members(place.id, members)?;
        }
        let forgets = place.running.as_ref().is_some_and(|it| it.forgets);
        self.report.forgetful_starts += usize::from(forgets);
        self.nodes[node].has_forgotten |= forgets;
        let place = &self.nodes[node];
        if let Some(shared) = place.shared().filter(|_| applied > 0 && !lost) {
            // What its image has.
            self.checks.state(place.id, applied, state_hash(shared))?;
            self.checks.sessions_of(place.id, shared)?;
        }
        self.after(MS, Event::Tick { node, life });
        Ok(())
    }

    fn run_part(&mut self, node: usize, life: u64, part: Part) -> Result<(), String> {
        self.scheduled.remove(&(node, life, part));
        if self.nodes[node].life != life || self.nodes[node].running.is_none() {
            return Ok(());
        }
        let counts = |node: &SimNode| {
            let counts = [
                Count::ImagesWritten,
                Count::PayloadsDamaged,
                Count::ImageFilesDamaged,
                Count::ReadsFromImage,
            ];
            let metrics = node.shared().map(|it| &it.metrics);
            counts.map(|count| metrics.map_or(0, |it| it.count(count)) as usize)
        };
        let before = counts(&self.nodes[node]);
        let next = self.nodes[node].run(part, self.now);
        let after = counts(&self.nodes[node]);
        self.report.images += after[0] - before[0];
        self.report.found_payloads += after[1] - before[1];
        self.report.found_files += after[2] - before[2];
        self.report.reads_from_image += after[3] - before[3];
        if let Some(at) = next {
            // A worker wants to be called again, with or without new events.
            let delay = at.saturating_sub(self.now) + 1;
            self.after(delay, Event::Run { node, life, part });
        }
        if after[0] > before[0] && self.crash_in_image.remove(&node) {
            self.crash(node);
            return Ok(());
        }
        let is_write = matches!(part, Part::RaftWriter | Part::PayloadWriter(_));
        if is_write && let Some(writes) = self.crash_in_write.get_mut(&node) {
            if *writes == 0 {
                self.crash_in_write.remove(&node);
                self.crash(node);
                return Ok(());
            }
            *writes -= 1;
        }
        self.check(node)
    }

    fn check(&mut self, node: usize) -> Result<(), String> {
        let Some(running) = &self.nodes[node].running else {
            return Ok(());
        };
        let shared = Arc::clone(&running.parts.shared);
        let id = self.nodes[node].id;
        let is_first = self.checks.members(id, running.parts.raft.membership())?;
        if let Some(failure) = shared.failure.lock().clone() {
            return match &*failure {
                NodeFailure::ImageInstalled { .. } => {
                    self.report.installs += 1;
                    self.nodes[node].running = None;
                    self.after(10 * MS, Event::Restart(node));
                    Ok(())
                }
                NodeFailure::Gone { .. } if self.checks.latest_members().has_gone(id) => {
                    self.nodes[node].crash(&mut self.random);
                    self.nodes[node].is_wiped = true;
                    Ok(())
                }
                other => Err(format!("node {id} stopped: {other}")),
            };
        }
        let view = shared.view.lock().clone();
        self.checks.view(id, &view)?;
        let applied = shared.applied();
        let (_, seen) = self.seen[node];
        for index in seen + 1..=applied {
            let entry = running.parts.raft.entry(index);
            let entry = entry.ok_or_else(|| format!("node {id} has no entry {index}"))?;
            let payload = |payload: &PayloadRef| {
                // The node's own may have been damaged since it was applied.
                let own = std::iter::once(&shared);
                let mut nodes = own.chain(self.nodes.iter().filter_map(SimNode::shared));
                nodes.find_map(|it| whole_payload(it, payload))
            };
            self.checks.apply(id, entry, payload)?;
        }
        if applied > seen {
            self.seen[node].1 = applied;
            self.checks.sessions_of(id, &shared)?;
            if applied.is_multiple_of(8) {
                self.checks.state(id, applied, state_hash(&shared))?;
            }
        }
        if is_first {
            self.split_at_change(node);
        }
        self.note_back(node, &view);
        Ok(())
    }
}

/// A payload, if a node has it whole.
fn whole_payload(shared: &Shared, payload: &PayloadRef) -> Option<Bytes> {
    let cached = shared.cache.get(payload);
    let bytes = cached.or_else(|| shared.store.read_payload(payload.name).ok());
    bytes.filter(|bytes| payload.matches(bytes))
}

fn state_hash(shared: &Shared) -> u128 {
    let view = shared.replica.view().expect("it is open");
    let tables = view.state_hash(|| true).expect("no view expires");
    let tables = tables.expect("it is not ended");
    tables.wrapping_add(shared.sessions.lock().state_hash())
}
