//! Transports of a small cluster, and their events.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use namiki_client::protocol::{MAGIC, NodeAddresses, PROTOCOL_VERSION, Request};

use crate::entry::{PayloadName, PayloadRef};
use crate::network::{ClientName, ConnectionId, Inbox, Network, NodeId, PeerMessage};
use crate::transport::{
    Limits, Listeners, NodeSecurity, PeerSettings, RunningTransport, Timing, Transport,
    TransportSettings,
};

/// Timeout for steps that never end if the test fails.
pub(super) const WATCHDOG: Duration = Duration::from_secs(60);
pub(super) const CLUSTER: u128 = 0x00c0_ffee;
pub(super) const WORKERS: u16 = 2;
/// The hello of a client of any cluster.
pub(super) const CLIENT_HELLO: Request = Request::Hello {
    magic: MAGIC,
    version: PROTOCOL_VERSION,
    cluster: 0,
};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Message(NodeId, PeerMessage),
    Connected(NodeId),
    Disconnected(NodeId),
    Request(ConnectionId, Request),
    Gone(ConnectionId),
    Removed(NodeId),
}

pub(super) struct Recorder(pub(super) Sender<Event>);

impl Recorder {
    fn record(&self, event: Event) {
        // The test may be over.
        let _ = self.0.send(event);
    }
}

impl Inbox for Recorder {
    fn receive(&self, from: NodeId, message: PeerMessage) {
        self.record(Event::Message(from, message));
    }

    fn connected(&self, node: NodeId) {
        self.record(Event::Connected(node));
    }

    fn disconnected(&self, node: NodeId) {
        self.record(Event::Disconnected(node));
    }

    fn gone(&self, according_to: NodeId) {
        self.record(Event::Removed(according_to));
    }

    fn request(&self, from: ConnectionId, _: &ClientName, request: Request) {
        self.record(Event::Request(from, request));
    }

    fn client_gone(&self, connection: ConnectionId) {
        self.record(Event::Gone(connection));
    }
}

pub(super) fn logger() -> slog::Logger {
    slog::Logger::root(slog::Discard, slog::o!())
}

/// Two lone listeners at free ports.
pub(super) fn listeners() -> Listeners {
    Listeners::bind("127.0.0.1:0", "127.0.0.1:0").unwrap()
}

pub(super) fn settings(node: u64, peers: Vec<PeerSettings>) -> TransportSettings {
    let ms = Duration::from_millis;
    TransportSettings {
        cluster: CLUSTER,
        node: NodeId::first(node),
        founders: 0,
        workers: WORKERS,
        peers,
        group_commands_max: 100,
        allow_cuts: true,
        limits: Limits {
            payload_bytes_max: 4 << 20,
            raft_bytes_max: 1 << 20,
            client_message_bytes_max: 1 << 20,
            unauthenticated_max: 8,
            ..Limits::default()
        },
        timing: Timing {
            keepalive: ms(20),
            dead_after: WATCHDOG,
            hello_timeout: WATCHDOG,
            message_timeout: WATCHDOG,
            reconnect_first: ms(1),
            reconnect_longest: ms(20),
        },
    }
}

/// Short timeouts, for tests in which a node must time out.
pub(super) fn short_timeouts(settings: &mut TransportSettings) {
    let timeout = Duration::from_millis(300);
    settings.timing.dead_after = timeout;
    settings.timing.hello_timeout = timeout;
    settings.timing.message_timeout = timeout;
}

pub(super) fn peer(node: u64, address: &str) -> PeerSettings {
    PeerSettings {
        node,
        addresses: NodeAddresses {
            peer: address.to_owned(),
            client: format!("client-of-{node}"),
        },
        delay: Duration::ZERO,
        handling: Duration::ZERO,
    }
}

/// A transport that runs.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) running: RunningTransport,
    pub(super) network: Arc<dyn Network>,
    pub(super) events: Receiver<Event>,
    pub(super) peer_address: String,
    pub(super) client_address: String,
}

impl Node {
    pub(super) fn start(listeners: Listeners, settings: TransportSettings) -> Self {
        let (sender, events) = channel();
        Self::start_with(listeners, settings, Arc::new(Recorder(sender)), events)
    }

    pub(super) fn start_with(
        listeners: Listeners,
        settings: TransportSettings,
        inbox: Arc<dyn Inbox>,
        events: Receiver<Event>,
    ) -> Self {
        Self::start_secured(
            listeners,
            settings,
            NodeSecurity::Plain,
            logger(),
            inbox,
            events,
        )
    }

    pub(super) fn start_secured(
        listeners: Listeners,
        settings: TransportSettings,
        security: NodeSecurity,
        logger: slog::Logger,
        inbox: Arc<dyn Inbox>,
        events: Receiver<Event>,
    ) -> Self {
        let peer_address = listeners.peers.local_addr().unwrap().to_string();
        let client_address = listeners.clients.local_addr().unwrap().to_string();
        let id = settings.node;
        let transport = Transport::new(listeners, settings, security, logger);
        let network = transport.network();
        Self {
            id,
            running: transport.start(inbox).unwrap(),
            network,
            events,
            peer_address,
            client_address,
        }
    }

    pub(super) fn next(&self) -> Event {
        self.events.recv_timeout(WATCHDOG).expect("an event")
    }

    /// The next message; other events before it are skipped.
    pub(super) fn next_message(&self) -> (NodeId, PeerMessage) {
        loop {
            if let Event::Message(from, message) = self.next() {
                return (from, message);
            }
        }
    }

    /// Skips events until this one.
    pub(super) fn wait_for(&self, expected: &Event) {
        while self.next() != *expected {}
    }

    /// Lets this node send until the other receives, as Raft does, and returns the first message
    /// that arrives.
    pub(super) fn send_until_received(&self, to: &Self, message: &PeerMessage) -> PeerMessage {
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < WATCHDOG, "nothing arrives");
            self.network.send(to.id, message.clone());
            let wait = Duration::from_millis(50);
            while let Ok(event) = to.events.recv_timeout(wait) {
                if let Event::Message(from, message) = event {
                    assert_eq!(from, self.id);
                    return message;
                }
            }
        }
    }

    pub(super) fn wait_for_lanes(&self, node: u64, lanes: usize) {
        wait_until(|| self.running.lanes_up(NodeId::first(node)) == lanes);
    }
}

pub(super) fn wait_until(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < WATCHDOG, "it never holds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two nodes, 1 and 2, with all lanes up. Node 1 also knows a node 3, which does not run.
pub(super) fn two_nodes(change: impl Fn(&mut TransportSettings)) -> (Node, Node) {
    let (one, two) = (listeners(), listeners());
    let address = |it: &Listeners| it.peers.local_addr().unwrap().to_string();
    let (to_one, to_two) = (peer(1, &address(&one)), peer(2, &address(&two)));
    let mut of_one = settings(1, vec![to_two, peer(3, "127.0.0.1:1")]);
    let mut of_two = settings(2, vec![to_one]);
    change(&mut of_one);
    change(&mut of_two);
    let (one, two) = (Node::start(one, of_one), Node::start(two, of_two));
    one.wait_for_lanes(2, 2 + usize::from(WORKERS));
    two.wait_for_lanes(1, 2 + usize::from(WORKERS));
    (one, two)
}

pub(super) fn payload(worker: u16, number: u64, bytes: usize) -> PeerMessage {
    let name = PayloadName {
        term: 1,
        worker,
        number,
    };
    let bytes = Bytes::from(vec![number.to_le_bytes()[0]; bytes]);
    let payload = PayloadRef::of(name, &bytes);
    PeerMessage::Payload { payload, bytes }
}

pub(super) fn raft(text: &'static str) -> PeerMessage {
    PeerMessage::Raft(Bytes::from_static(text.as_bytes()))
}

/// A raw connection.
pub(super) fn dial(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}
