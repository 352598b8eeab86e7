//! For tests with hostile bytes outside of this crate: processes bytes as if a client or another
//! node had sent them. They take the path of a connection, without sockets, up to the execution of
//! a request or a Raft message.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use namiki::replica::Replica;
use namiki::{Stamp, TableId};
use namiki_client::protocol::{
    Outcome, Request, SessionId, claimed_group, claimed_version, decode, decoded_size,
};
use tokio::io::{AsyncRead, ReadBuf};

use crate::command_size::{BOOKKEEPING_BYTES, memory_of_commands, memory_of_keys};
use crate::entry::{PayloadName, PayloadRef};
use crate::image_message::{ImageContent, ImageMessage};
use crate::log_space::LogSpace;
use crate::membership::Membership;
use crate::network::{NodeId, PeerMessage};
use crate::payload::{Payload, PayloadBuilder};
use crate::payload_cache::PayloadCache;
use crate::raft::{look_at_message, look_at_start_message, messages, start_messages};
use crate::transport::frame::{IncomingFrame, OutgoingFrame};
use crate::transport::frame_reader::{Budget, FrameReadError, FrameReader};
use crate::transport::hello::{HELLO_FRAME_BYTES_MAX, Hello, Identity, Standing, check_answer};
use crate::transport::incoming::{CHUNK_BYTES as PEER_CHUNK_BYTES, received};
use crate::transport::lane::Lane;

/// Bytes that are read at once: few, so that small inputs have long frames.
const CHUNK_BYTES: usize = 256;
/// The longest frame that is accepted.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Memory budget of clients for frames that have not arrived completely.
const BUDGET_BYTES: usize = 2 << 20;
/// The longest group of commands.
const GROUP_COMMANDS_MAX: u64 = 1000;
const WORKERS: u16 = 4;
/// The tables that changes are applied to: one has keys of eight bytes.
const TABLES: [(u32, bool); 2] = [(1, true), (2, false)];

const OWN: Identity = Identity {
    cluster: 7,
    node: NodeId::new(2, 5),
    workers: WORKERS,
    founders: 6,
};
const PEER: NodeId = NodeId::new(1, 3);

/// Bytes that arrive in pieces.
struct Arriving<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl AsyncRead for Arriving<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = self.step.min(into.remaining()).min(self.bytes.len());
        let (now, later) = self.bytes.split_at(bytes);
        into.put_slice(now);
        self.bytes = later;
        Poll::Ready(Ok(()))
    }
}

/// A payload cache and the lane that fills it.
pub struct FilledCache(PayloadCache);

impl FilledCache {
    /// Puts sealed payloads of this length into a cache of `bytes_max` bytes.
    #[must_use]
    pub fn of_sealed(bytes_max: usize, payloads: u64, bytes: usize) -> Self {
        let cache = PayloadCache::new(bytes_max);
        for number in 1..=payloads {
            let payload = vec![number as u8; bytes];
            cache.insert(PayloadRef::of(name_of(number), &payload), payload.into());
        }
        Self(cache)
    }

    /// Puts payloads of this length into a cache of `bytes_max` bytes. They arrive on a lane, each
    /// behind an invalid one of `others` bytes.
    #[must_use]
    pub fn of_received(bytes_max: usize, payloads: u64, bytes: usize, others: usize) -> Self {
        let cache = PayloadCache::new(bytes_max);
        let mut wire = Vec::new();
        let mut put = |number, payload: &[u8]| {
            let message = PeerMessage::Payload {
                payload: PayloadRef::of(name_of(number), payload),
                bytes: Bytes::copy_from_slice(payload),
            };
            let frame = OutgoingFrame::of(message);
            wire.extend_from_slice(frame.head());
            wire.extend_from_slice(frame.body());
        };
        for number in 1..=payloads {
            put(0, &vec![0; others]);
            put(number, &vec![number as u8; bytes]);
        }
        let arriving = Arriving {
            bytes: &wire,
            step: 64 << 10,
        };
        let mut reader = FrameReader::new(arriving, PEER_CHUNK_BYTES);
        while let Ok(frame) = next_frame(&mut reader, FRAME_BYTES_MAX) {
            let message = received(frame, Lane::Payloads(0));
            if let Ok(PeerMessage::Payload { payload, bytes }) = message
                && payload.name.number > 0
            {
                cache.insert(payload, bytes);
            }
        }
        Self(cache)
    }

    /// Number of payloads of the first `payloads` that are kept.
    #[must_use]
    pub fn kept(&self, payloads: u64, bytes: usize) -> u64 {
        let kept = |number: &u64| {
            let payload = vec![*number as u8; bytes];
            let payload = PayloadRef::of(name_of(*number), &payload);
            self.0.get(&payload).is_some()
        };
        (1..=payloads).filter(kept).count() as u64
    }
}

fn name_of(number: u64) -> PayloadName {
    PayloadName {
        term: 1,
        worker: 0,
        number,
    }
}

/// The next frame. All bytes are available at once.
fn next_frame(
    reader: &mut FrameReader<Arriving<'_>>,
    limit: usize,
) -> Result<Bytes, FrameReadError> {
    let next = async {
        reader.begin().await?;
        reader.next(limit).await
    };
    match pin!(next).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frame) => frame,
        Poll::Pending => {
            panic!("a frame of at most {limit} bytes waits for memory, and there is some")
        }
    }
}

/// The requests that a node decodes from bytes that arrive in pieces of at most `step` bytes, and
/// the reason if it refuses the client before their end.
#[must_use]
pub fn requests(arriving: &[u8], step: usize) -> (Vec<Request>, Option<String>) {
    let bytes = arriving;
    let budget = Budget::of_bytes(BUDGET_BYTES);
    let mut reader = FrameReader::with_budget(Arriving { bytes, step }, CHUNK_BYTES, budget);
    let mut requests = Vec::new();
    loop {
        let frame = match next_frame(&mut reader, FRAME_BYTES_MAX) {
            Ok(frame) => frame,
            Err(FrameReadError::Closed) => return (requests, None),
            Err(error) => return (requests, Some(error.to_string())),
        };
        let claimed = claimed_group(&frame);
        if claimed.is_some_and(|it| it.commands > GROUP_COMMANDS_MAX) {
            continue;
        }
        match decode(&frame) {
            Ok(request) => {
                says_what_it_claims(&request, &frame);
                requests.push(request);
            }
            Err(error) => return (requests, Some(error.to_string())),
        }
    }
}

/// Asserts that the header found without decoding a request matches the request.
fn says_what_it_claims(request: &Request, frame: &[u8]) {
    let claimed = claimed_group(frame);
    let size = decoded_size(frame).expect("a request that can be decoded has a size");
    match request {
        Request::Submit {
            group, commands, ..
        } => {
            let claimed = claimed.expect("it is a group");
            let size = size.expect("it is a group");
            assert_eq!(
                (size.request, size.items),
                (claimed.group, claimed.commands)
            );
            let memory = memory_of_commands(commands);
            assert!(size.bytes + commands.len() * BOOKKEEPING_BYTES >= memory);
            assert_eq!(
                (claimed.group, claimed.commands),
                (*group, commands.len() as u64)
            );
        }
        Request::Read { request, keys, .. } => {
            let size = size.expect("it is a read");
            assert_eq!((size.request, size.items), (*request, keys.len() as u64));
            assert!(size.bytes >= memory_of_keys(keys));
            assert_eq!(claimed, None);
        }
        _ => assert_eq!((claimed, size), (None, None)),
    }
    if let Request::Hello { version, .. } = request
        && let Some(claimed) = claimed_version(frame)
    {
        assert_eq!(claimed, u64::from(*version));
    }
}

/// Reads frames of another node on one of the lanes or, if the lane does not exist, hellos and
/// answers to them. Asserts that encoding the decoded messages yields the same bytes.
///
/// # Errors
/// The reason for which the connection would end, or a message be dropped.
///
/// # Panics
/// If a message is encoded differently, or is accepted although it is invalid.
pub fn look_at_peer(lane: u8, arriving: &[u8], step: usize) -> Result<(), String> {
    let bytes = arriving;
    let mut reader = FrameReader::new(Arriving { bytes, step }, CHUNK_BYTES);
    let lane = Lane::from_wire(lane & 3, u16::from(lane >> 2) % WORKERS, WORKERS);
    let limit = lane.map_or(HELLO_FRAME_BYTES_MAX, |_| FRAME_BYTES_MAX);
    loop {
        let frame = match next_frame(&mut reader, limit) {
            Ok(frame) => IncomingFrame::of(frame),
            Err(FrameReadError::Closed) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        match lane {
            Some(lane) => look_at_frame(frame, lane)?,
            None => look_at_hello(frame)?,
        }
    }
}

fn look_at_hello(frame: IncomingFrame) -> Result<(), String> {
    let answer = IncomingFrame {
        kind: frame.kind,
        body: frame.body.clone(),
    };
    if check_answer(answer, OWN.node).is_ok() {
        return Ok(());
    }
    let body = frame.body.clone();
    let standing = |node| match node {
        PEER => Standing::Admitted,
        _ => Standing::Unknown,
    };
    let (from, lane) =
        Hello::check(frame, &OWN, standing).map_err(|refusal| refusal.to_string())?;
    let hello = Hello {
        cluster: OWN.cluster,
        from,
        to: OWN.node,
        lane,
        workers: WORKERS,
        founders: OWN.founders,
    };
    assert_eq!(*hello.to_frame().body(), body);
    Ok(())
}

fn look_at_frame(frame: IncomingFrame, lane: Lane) -> Result<(), String> {
    let written = (frame.kind, frame.body.clone());
    let message = frame
        .into_message(lane)
        .map_err(|error| error.to_string())?;
    let again = OutgoingFrame::of(message.clone());
    let mut bytes = again.head()[super::frame::LENGTH_BYTES..].to_vec();
    bytes.extend_from_slice(again.body());
    assert_eq!((bytes[0], &bytes[1..]), (written.0, &written.1[..]));
    match message {
        PeerMessage::Raft(bytes) => {
            look_at_message(PEER, OWN.node, &bytes).map_err(|error| error.to_string())
        }
        PeerMessage::Start(bytes) => look_at_start_message(&bytes).map_err(str::to_owned),
        PeerMessage::Payload { bytes, .. } => look_at_payload(&bytes),
        PeerMessage::FetchedPayload { bytes, .. } => {
            bytes.map_or(Ok(()), |bytes| look_at_payload(&bytes))
        }
        PeerMessage::FetchPayloads { .. } | PeerMessage::Image(_) | PeerMessage::LogSpace(_) => {
            Ok(())
        }
    }
}

fn replica() -> Arc<Replica> {
    let replica = Replica::in_memory().expect("memory suffices");
    for (id, fixed_keys) in TABLES {
        let made = replica.create_table(&format!("table {id}"), fixed_keys);
        assert_eq!(made, Ok(TableId(id)), "they are numbered from 1");
    }
    Arc::new(replica)
}

fn state_hash(replica: &Replica) -> u128 {
    let hash = replica.view().and_then(|view| view.state_hash(|| true));
    hash.expect("the view is open").expect("it is not ended")
}

/// Reads a payload, and applies its changes as those of a committed group.
fn look_at_payload(bytes: &[u8]) -> Result<(), String> {
    let payload = Payload::read(bytes).map_err(|error| error.to_string())?;
    for section in &payload.sections {
        let mut before = None;
        for (index, _) in section.outcomes() {
            assert!(index < section.commands && before.is_none_or(|before| before < index));
            before = Some(index);
        }
        assert!(section.count() <= bytes.len());
    }
    let replica = replica();
    let before = state_hash(&replica);
    match replica.apply(Stamp(1), payload.changes) {
        Ok(_) => Ok(()),
        Err(error) => {
            assert_eq!(
                state_hash(&replica),
                before,
                "{error}, and something was changed"
            );
            Err(error.to_string())
        }
    }
}

/// The bytes that a node sends on each lane: a name, the number of the lane, and the frames.
///
/// # Panics
/// If changes cannot be made in an empty table.
#[must_use]
pub fn peer_frames() -> Vec<(&'static str, u8, Vec<u8>)> {
    let bytes = Bytes::from(payload());
    let name = PayloadName {
        term: 3,
        worker: 2,
        number: 9,
    };
    let payload = PayloadRef::of(name, &bytes);
    let to_payloads = [PeerMessage::Payload {
        payload,
        bytes: bytes.clone(),
    }];
    let to_catch_up = [
        PeerMessage::FetchPayloads {
            payloads: vec![payload; 2],
        },
        PeerMessage::FetchedPayload {
            payload,
            bytes: Some(bytes),
        },
        PeerMessage::FetchedPayload {
            payload,
            bytes: None,
        },
        PeerMessage::Image(ImageMessage {
            image: 7,
            content: ImageContent::Part {
                file: 2,
                offset: 3,
                file_bytes: 9,
                bytes: Bytes::from_static(b"rows"),
            },
        }),
    ];
    let to_control = messages(PEER, OWN.node, payload);
    let to_control: Vec<_> = to_control.into_iter().map(PeerMessage::Raft).collect();
    let starts = start_messages(&Membership::new(&[PEER, OWN.node]));
    let starts: Vec<_> = starts.into_iter().map(PeerMessage::Start).collect();
    let spaces = [(0, true), (1 << 30, false)];
    let spaces = spaces.map(|(usable_bytes, is_low)| {
        PeerMessage::LogSpace(LogSpace {
            usable_bytes,
            is_low,
        })
    });
    let hello = Hello {
        cluster: OWN.cluster,
        from: PEER,
        to: OWN.node,
        lane: Lane::Payloads(2),
        workers: WORKERS,
        founders: OWN.founders,
    };
    let of = |messages: &[PeerMessage]| frames(messages.iter().cloned().map(OutgoingFrame::of));
    vec![
        ("seed-raft", 0, of(&to_control)),
        ("seed-start", 0, of(&starts)),
        ("seed-room", 0, of(&spaces)),
        ("seed-payload", 1 | 2 << 2, of(&to_payloads)),
        ("seed-catch-up", 2, of(&to_catch_up)),
        (
            "seed-hello",
            3,
            frames([hello.to_frame(), OWN.answer(None)]),
        ),
    ]
}

fn frames(frames: impl IntoIterator<Item = OutgoingFrame>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        bytes.extend_from_slice(frame.head());
        bytes.extend_from_slice(frame.body());
    }
    bytes
}

/// Outcomes and changes of a group.
fn payload() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = PayloadBuilder::default();
    let outcomes = [(1, Outcome::Done), (4, Outcome::ConditionFailed)];
    builder.section(SessionId(5), 7, 6, 5, &outcomes);
    builder.finish(&mut bytes);
    let mut group = replica().begin_group();
    group.begin_command();
    let rows: [(u32, &[u8], Option<&[u8]>); 4] = [
        (1, &[1; 8], Some(&[2; 8])),
        (1, &[3; 8], Some(&[4; 8])),
        (2, b"key", Some(b"value")),
        (2, b"gone", None),
    ];
    for (table, key, value) in rows {
        let slot = group
            .lock(TableId(table), key)
            .expect("there is no other group");
        group.write(slot, Some(b"")).expect("it is short");
        group.write(slot, value).expect("it is short");
    }
    group.encode_changes(&mut bytes);
    bytes
}
