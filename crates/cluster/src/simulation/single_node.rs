//! One node alone, which gets requests one by one: what a leader answers in which state.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki_client::protocol::{
    Command, MemberChange, Outcome, Request, Response, SessionEntry, SessionId, Write,
};

use super::network::{Outbox, Sent};
use super::node::{Part, SimNode, addresses_of};
use crate::entry::{PayloadName, PayloadRef};
use crate::events::ImageEvent;
use crate::groups::producer::RequestLimits;
use crate::groups::worker::GroupOptions;
use crate::image::checkpointer::ImageOptions;
use crate::log_space::LogSpace;
use crate::metrics::Count;
use crate::network::{ClientName, ConnectionId, Inbox as _, NodeId};
use crate::node::NodeOptions;
use crate::payload::{Payload, PayloadBuilder};
use crate::raft::RaftEvent;
use crate::shared::Shared;

const CONNECTION: ConnectionId = ConnectionId(1);
/// Ticks of ten seconds in an hour.
const HOUR: usize = 360;

struct SingleNode {
    node: SimNode,
    outbox: Outbox,
    now_ns: u64,
    /// Otherwise the log keeps what it has.
    writes_images: bool,
}

impl SingleNode {
    /// A node with this limit of its log that leads.
    fn start(log_bytes_max: Option<u64>, session_idle_close: Option<Duration>) -> Self {
        // While an image is written, no other part runs, and the log cannot grow.
        let images = ImageOptions {
            bytes_per_second_min: NonZeroU64::MAX,
            ..ImageOptions::default()
        };
        Self::start_with(log_bytes_max, session_idle_close, images)
    }

    fn start_with(
        log_bytes_max: Option<u64>,
        session_idle_close: Option<Duration>,
        images: ImageOptions,
    ) -> Self {
        let options = NodeOptions {
            images,
            heartbeat: Duration::from_secs(20),
            election_timeout: Duration::from_secs(60),
            groups: GroupOptions {
                wait_ns: 0,
                ..GroupOptions::default()
            },
            limits: RequestLimits {
                session_idle_close,
                ..RequestLimits::default()
            },
            ..NodeOptions::default()
        };
        let mut node = SimNode::create(NodeId::first(1), 1, 1, options).expect("an empty disk");
        node.log_bytes_max = log_bytes_max;
        let outbox = Outbox::default();
        node.start(&outbox).expect("a new directory");
        let mut single = Self {
            node,
            outbox,
            now_ns: 0,
            writes_images: false,
        };
        for _ in 0..100 {
            single.tick();
        }
        assert!(single.shared().leads());
        single
    }

    fn shared(&self) -> &Arc<Shared> {
        self.node.shared().expect("it runs")
    }

    fn tick(&mut self) {
        self.shared().raft.put(RaftEvent::Tick);
        self.run();
    }

    /// The checkpointer's interval has passed.
    fn look(&mut self) {
        self.shared().images.put(ImageEvent::Look);
        self.run();
    }

    /// Runs all parts until nothing is left to do.
    fn run(&mut self) {
        let mut wakes_at = None;
        loop {
            let mut ready = self.node.ready();
            ready.retain(|part| self.writes_images || *part != Part::Checkpointer);
            if ready.is_empty() {
                let Some(at) = wakes_at.take() else { return };
                self.now_ns = self.now_ns.max(at);
                ready.push(Part::Worker(0));
            }
            for part in ready {
                let wakes = self.node.run(part, self.now_ns);
                if matches!(part, Part::Worker(_)) {
                    wakes_at = wakes;
                }
            }
        }
    }

    /// Sends a request, which nothing but the producer handles yet.
    fn send(&self, request: Request) {
        let running = self.node.running.as_ref().expect("it runs");
        let client = ClientName::of_address([10, 0, 0, 1].into());
        running.inbox.request(CONNECTION, &client, request);
    }

    fn answers(&self) -> Vec<Response> {
        let sent = std::mem::take(&mut *self.outbox.lock()).into_iter();
        sent.filter_map(|sent| match sent {
            Sent::Client { response, .. } => Some(response),
            Sent::Peer { .. } => None,
        })
        .collect()
    }

    fn ask(&mut self, request: Request) -> Response {
        self.send(request);
        self.run();
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    fn open_session(&mut self, nonce: u128) -> SessionId {
        match self.ask(Request::OpenSession { nonce }) {
            Response::SessionOpened { session, .. } => session,
            other => panic!("{other:?}"),
        }
    }

    fn create_table(&mut self) -> u32 {
        let create = Request::CreateTable {
            name: "rows".to_owned(),
            eight_byte_keys: false,
        };
        match self.ask(create) {
            Response::Table { table, .. } => table,
            other => panic!("{other:?}"),
        }
    }

    fn sessions(&mut self) -> Vec<SessionEntry> {
        let after = (0, SessionId(0));
        match self.ask(Request::Sessions { after }) {
            Response::Sessions {
                sessions,
                has_more: false,
            } => sessions,
            other => panic!("{other:?}"),
        }
    }
}

/// A group of this number of commands, each with a row of this length.
fn group(session: SessionId, group: u64, table: u32, commands: u8, bytes: usize) -> Request {
    let command = |key| {
        Command::Write(Box::new(Write {
            conditions: Vec::new(),
            rows: vec![(table, vec![key], Some(vec![7; bytes]))],
        }))
    };
    Request::Submit {
        session,
        fence: session.0,
        group,
        acknowledged_through: 0,
        commands: (0..commands).map(command).collect(),
    }
}

/// A refusal is final. A client that gets one may do the same under another number.
#[test]
fn a_full_leader_does_not_refuse_an_executed_group() {
    let mut single = SingleNode::start(Some(3 << 20), None);
    let (table, session) = (single.create_table(), single.open_session(1));
    let first = single.ask(group(session, 1, table, 2, 10));
    let Response::Results { outcomes, .. } = &first else {
        panic!("{first:?}");
    };
    assert_eq!(outcomes, &[Outcome::Done; 2]);
    let mut number = 1;
    while single.shared().store.has_room() {
        number += 1;
        let answer = single.ask(group(session, number, table, 1, 20_000));
        assert!(matches!(answer, Response::Results { .. }), "{answer:?}");
    }
    // One command of this group is in the log.
    let partly = number + 1;
    let (mut builder, mut bytes) = (PayloadBuilder::default(), Vec::new());
    builder.section(session, partly, 0, 2, &[(0, Outcome::Done)]);
    builder.finish(&mut bytes);
    let payload = Payload::read(&bytes).expect("it was just built");
    let at = single.shared().sessions.lock().used(session);
    let applied = single
        .shared()
        .sessions
        .lock()
        .apply(at, &payload.sections[0]);
    applied.expect("once");
    for makes_room in [true, false] {
        single.shared().truncation.note(makes_room);
        let again = single.ask(group(session, 1, table, 2, 10));
        let Response::Results {
            outcomes: known, ..
        } = &again
        else {
            panic!("{again:?}");
        };
        assert_eq!(known, outcomes);
        let answer = single.ask(group(session, partly, table, 2, 10));
        assert_eq!(answer, Response::Busy { request: partly });
        let new = partly + 1;
        single.send(group(session, new, table, 2, 10));
        let answers = single.answers();
        if makes_room {
            assert_eq!(answers, [Response::Busy { request: new }]);
            continue;
        }
        // Another leader may have accepted it, if this one was deposed: it asks the others first.
        assert_eq!(answers, []);
        single.run();
        let answers = single.answers();
        let [Response::Refused { request, reason }] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert!(
            *request == new && reason.contains("log_bytes_max"),
            "{reason}"
        );
    }
}

/// A group behind the entry that closes its session would be executed without a session that knows of it.
#[test]
fn a_session_is_closed_between_groups() {
    let mut single = SingleNode::start(None, None);
    let (table, session) = (single.create_table(), single.open_session(1));
    let close = || Request::CloseSession {
        session,
        fence: session.0,
    };
    single.send(group(session, 1, table, 1, 10));
    single.send(close());
    assert_eq!(single.answers(), [Response::Busy { request: 0 }]);
    single.run();
    assert!(matches!(
        single.answers()[..],
        [Response::Results { group: 1, .. }]
    ));
    single.send(close());
    single.send(group(session, 2, table, 1, 10));
    assert_eq!(single.answers(), [Response::Busy { request: 2 }]);
    // What is known is told until then.
    single.send(group(session, 1, table, 1, 10));
    assert!(matches!(
        single.answers()[..],
        [Response::Results { group: 1, .. }]
    ));
    single.run();
    assert_eq!(single.answers(), [Response::SessionClosed { session }]);
    let answer = single.ask(group(session, 2, table, 1, 10));
    assert_eq!(answer, Response::NoSuchSession { session });
    assert_eq!(single.shared().sessions.lock().outcomes(), 0);
}

#[test]
fn a_leader_closes_sessions_that_are_not_used() {
    for closes in [true, false] {
        let idle = closes.then_some(Duration::from_secs(3600));
        let mut single = SingleNode::start(None, idle);
        let table = single.create_table();
        let (first, second) = (single.open_session(1), single.open_session(2));
        let pass = |single: &mut SingleNode, ticks| (0..ticks).for_each(|_| single.tick());
        pass(&mut single, HOUR / 2);
        let answer = single.ask(group(second, 1, table, 1, 10));
        assert!(matches!(answer, Response::Results { .. }), "{answer:?}");
        let listed = single.sessions();
        assert_eq!([listed[0].session, listed[1].session], [first, second]);
        assert_eq!([listed[0].results, listed[1].results], [0, 1]);
        let known = 1700..=1800;
        assert!(
            known.contains(&listed[0].idle_s) && listed[1].idle_s == 0,
            "{listed:?}"
        );
        pass(&mut single, HOUR / 2 + 20);
        let left: Vec<_> = single.sessions().iter().map(|it| it.session).collect();
        let expected = if closes {
            vec![second]
        } else {
            vec![first, second]
        };
        assert_eq!(left, expected);
        // Another group keeps its session.
        single.send(group(second, 2, table, 1, 10));
        pass(&mut single, HOUR / 2);
        assert_eq!(single.answers().len(), 1);
        assert!(single.sessions().iter().any(|it| it.session == second));
        pass(&mut single, HOUR);
        assert_eq!(single.sessions().is_empty(), closes);
    }
}

/// The log of this leader is much smaller than what is written while another node copies an image.
#[test]
fn the_log_that_a_copying_node_needs_is_kept() {
    let limit = 4 << 20;
    let mut single = SingleNode::start(Some(limit), None);
    single.writes_images = true;
    let (table, session) = (single.create_table(), single.open_session(1));
    let (mut number, copier) = (0, NodeId::first(2));
    // It never votes, as it answers nothing.
    single.send(Request::ChangeMembers(MemberChange::Add {
        node: copier.number(),
        incarnation: 1,
        addresses: addresses_of(copier.number()),
    }));
    single.run();
    assert!(single.shared().membership().nodes().any(|it| it == copier));
    single.answers();
    // Returns whether it is accepted.
    let mut write = |single: &mut SingleNode| {
        single.tick();
        single.look();
        match single.ask(group(session, number + 1, table, 1, 20_000)) {
            Response::Results { .. } => number += 1,
            Response::Busy { .. } => return false,
            other => panic!("{other:?}"),
        }
        true
    };
    for _ in 0..400 {
        assert!(write(&mut single), "images make space");
    }
    let through = single.shared().applied();
    assert!(single.shared().truncated() > 0);
    assert!((single.shared().kept_log.lock()).note_offer(copier, through));
    let mut accepted = 0;
    // Ticks are ten seconds long here, and it may slow the others for a minute.
    while single.shared().kept_log.lock().through().is_some() {
        (single.shared().kept_log.lock()).note_fetch(copier, 1, through);
        (single.shared().flow_control).note(copier, LogSpace::UNKNOWN);
        accepted += usize::from(write(&mut single));
        let is_kept = single.shared().kept_log.lock().through().is_some();
        assert!(!is_kept || single.shared().truncated() <= through);
        assert!(single.shared().store.log_bytes() <= limit);
    }
    // As many as the limit has space for, and then a part of what is left.
    assert!((50..200).contains(&accepted), "{accepted}");
    // It took too long, and the leader goes on without it.
    for _ in 0..10 {
        write(&mut single);
    }
    assert!(single.shared().truncated() > through);
    for _ in 0..400 {
        assert!(write(&mut single));
    }
}

/// A node with four megabytes of rows, whose first image is due and waits for the log: it would take weeks.
fn with_slow_image() -> SingleNode {
    let images = ImageOptions {
        log_bytes: 1 << 20,
        bytes_per_second_min: NonZeroU64::MIN,
        ..ImageOptions::default()
    };
    let mut single = SingleNode::start_with(None, None, images);
    let (table, session) = (single.create_table(), single.open_session(1));
    for number in 1..=200 {
        let mut request = group(session, number, table, 1, 20_000);
        if let Request::Submit { commands, .. } = &mut request
            && let Some(Command::Write(write)) = commands.first_mut()
        {
            write.rows[0].1 = vec![number as u8];
        }
        let answer = single.ask(request);
        assert!(matches!(answer, Response::Results { .. }), "{answer:?}");
    }
    single.writes_images = true;
    single
}

fn images_written(shared: &Shared) -> u64 {
    shared.metrics.count(Count::ImagesWritten)
}

/// Waits for this at most for a minute.
fn wait_until(is_over: impl Fn() -> bool) {
    let watchdog = Instant::now() + Duration::from_secs(60);
    while !is_over() && Instant::now() < watchdog {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An image waits until this happens, and not longer.
fn check_that_an_image_waits_for(event: impl FnOnce(&Shared) + Send + 'static) -> SingleNode {
    let mut single = with_slow_image();
    let shared = Arc::clone(single.shared());
    let other = std::thread::spawn(move || {
        wait_until(|| shared.metrics.is_image_in_progress() || images_written(&shared) > 0);
        // Long enough for an image that does not wait.
        std::thread::sleep(Duration::from_millis(300));
        let waits = shared.metrics.is_image_in_progress() && images_written(&shared) == 0;
        event(&shared);
        wait_until(|| !shared.metrics.is_image_in_progress());
        let has_ended = !shared.metrics.is_image_in_progress();
        // Also ends an image that waits on.
        shared.close();
        assert!(waits && has_ended, "waits: {waits}, has ended: {has_ended}");
    });
    single.look();
    other.join().expect("the image waits, and ends");
    single
}

#[test]
fn an_image_waits_until_an_event_comes() {
    let single = check_that_an_image_waits_for(|shared| shared.images.put(ImageEvent::NoRoom));
    assert_eq!(images_written(single.shared()), 1);
}

#[test]
fn an_image_waits_until_the_log_has_grown() {
    let single = check_that_an_image_waits_for(|shared| {
        for number in 0..20 {
            let name = PayloadName {
                term: 1,
                worker: 0,
                number: 1000 + number,
            };
            let bytes = vec![7; 50_000];
            let payload = PayloadRef::of(name, &bytes);
            let append = shared.store.append_payload(&payload, &bytes);
            append.expect("the log has room");
            shared.store.flush_payloads(0).expect("the disk is whole");
        }
    });
    assert_eq!(images_written(single.shared()), 1);
}

#[test]
fn an_image_waits_until_the_disk_is_full() {
    let single = check_that_an_image_waits_for(|shared| shared.flow_control.note_writer(true));
    assert_eq!(images_written(single.shared()), 1);
}

#[test]
fn an_image_waits_until_the_node_stops() {
    let single = check_that_an_image_waits_for(Shared::close);
    assert_eq!(images_written(single.shared()), 0);
}

/// The event comes when the view of the image is open, together with it.
fn check_that_no_image_waits_after(event: ImageEvent) {
    let mut single = with_slow_image();
    single.shared().images.put(ImageEvent::Look);
    for part in [Part::Checkpointer, Part::Applier] {
        single.node.run(part, single.now_ns);
    }
    let shared = Arc::clone(single.shared());
    assert_eq!(shared.images.len(), 1, "the view");
    shared.images.put(event);
    let other = std::thread::spawn(move || {
        wait_until(|| images_written(&shared) > 0);
        let is_written = images_written(&shared) > 0;
        shared.close();
        assert!(is_written, "the image waits");
    });
    single.node.run(Part::Checkpointer, single.now_ns);
    other.join().expect("the image does not wait");
}

#[test]
fn a_backup_does_not_wait_for_the_log() {
    check_that_no_image_waits_after(ImageEvent::Backup(CONNECTION));
}

#[test]
fn another_node_does_not_wait_for_the_log() {
    check_that_no_image_waits_after(ImageEvent::Wanted);
}
