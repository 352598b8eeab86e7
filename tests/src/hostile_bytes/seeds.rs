//! The first inputs of each target, written by the product. A test writes them into `fuzz/corpus/`
//! (`NAMIKI_WRITE_SEEDS=1 cargo test --test counted_memory seeds`), where fuzzing reads them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::path::Path;

use namiki::files::{Manifest, image_dir};
use namiki_client::protocol::{
    Command, Condition, Freshness, MAGIC, Outcome, PROTOCOL_VERSION, Request, Response, SessionId,
    Write, encode,
};
use namiki_cluster::transport::hostile_bytes::peer_frames;
use namiki_log::{GenerationInfo, Placement};
use namiki_platform::disk::{Disk, SimDisk};

use super::file_chunks::put_file;
use super::{client_frames, image_list, log_reader, segment_pages};
use crate::small_database::{builder, log_files, put, written};

/// The seeds of a target, with their names.
///
/// # Panics
/// If there is no such target.
#[must_use]
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "client_frames" => of_clients(),
        "image_list" => of_images(),
        "log_reader" => of_logs(),
        "peer_frames" => peer_frames()
            .into_iter()
            .map(|(name, lane, frames)| (name.to_owned(), [&[lane, 255], &frames[..]].concat()))
            .collect(),
        "plan_json" => of_plans(),
        "segment_pages" => of_segments(),
        other => panic!("no target is called {other}"),
    }
}

fn of_logs() -> Vec<(String, Vec<u8>)> {
    let stamp = 0;
    let (lsn, epoch) = (log_reader::CUT_BY_LSN, log_reader::CUT_BY_EPOCH);
    let operations = log_reader::OPERATIONS;
    let databases = [
        ("stamps", "TT(NLR)+PWAL(1)", stamp),
        ("lsns", "TT(ELR)+PWAL(1)", lsn),
        ("epochs", "SILO(EPOCH)+PWAL(1)", epoch),
        ("operations", "S2PL(NLR)+PWAL(1)+ARIES", operations),
    ];
    let mut seeds = Vec::new();
    for (name, spec, cut) in databases {
        for closed in [false, true] {
            let disk = written(spec, 3, closed);
            let files: Vec<_> = log_files(&disk, 0);
            let files = files.iter().map(|file| disk.read(file).unwrap()).collect();
            let ended = if closed { "closed" } else { "crashed" };
            seeds.push((format!("seed-{name}-{ended}"), log(&disk, cut, files)));
        }
    }
    // Spans two files.
    let disk = written("TT(NLR)+PWAL(1)", 40, false);
    let files: Vec<_> = log_files(&disk, 0);
    let files = files.iter().map(|file| disk.read(file).unwrap()).collect();
    seeds.push(("seed-two-files".to_owned(), log(&disk, stamp, files)));
    let disk = shared_device();
    let device = disk.read(Path::new("/device")).unwrap();
    seeds.push((
        "seed-shared-device".to_owned(),
        log(&disk, stamp, vec![device]),
    ));
    seeds
}

fn shared_device() -> SimDisk {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk)
        .streams(NonZeroU16::MIN)
        .shared_device("/device", log_reader::FILE_BYTES as u64)
        .open("/db")
        .unwrap();
    put(&db, 1).unwrap();
    put(&db, 2).unwrap();
    db.close().unwrap();
    disk
}

/// The files of the first generation as an input, with the identity that the target expects.
fn log(disk: &SimDisk, cut: u8, files: Vec<Vec<u8>>) -> Vec<u8> {
    let manifest = Manifest::read(disk, Path::new("/db")).unwrap().unwrap();
    let info: &GenerationInfo = &manifest.generations[0];
    assert_eq!(info.generation, log_reader::GENERATION);
    let mut flags = log_reader::MENDS | cut;
    let last = info.seal.as_ref().map(|seal| seal.last_sequence(0));
    if last.is_some() {
        flags |= log_reader::SEALED;
    }
    if matches!(info.placement, Placement::Shared { .. }) {
        flags |= log_reader::SHARED;
    }
    let mut input = vec![flags, last.unwrap_or_default() as u8, 0];
    let own = u128::from_str_radix(&manifest.database, 16).unwrap();
    for mut file in files {
        let heads: Vec<usize> = (0..file.len().min(8192)).step_by(512).collect();
        for at in heads {
            let identity = &mut file[at + 16..at + 32];
            if identity == own.to_le_bytes() {
                identity.copy_from_slice(&log_reader::IDENTITY.to_le_bytes());
            }
        }
        put_file(&file, &mut input);
    }
    input
}

fn of_segments() -> Vec<(String, Vec<u8>)> {
    let unchanged = |which| {
        (
            format!("seed-{which}"),
            vec![segment_pages::MENDS, which, 0, 0],
        )
    };
    (0..segment_pages::segments()).map(unchanged).collect()
}

fn of_images() -> Vec<(String, Vec<u8>)> {
    let disk = SimDisk::new();
    let db = builder("SILO(EPOCH)+PWAL(1)", &disk).open("/db").unwrap();
    (0..40).for_each(|key| put(&db, key).unwrap());
    db.checkpoint().unwrap();
    db.close().unwrap();
    let path = Manifest::path(Path::new("/db"));
    let manifest = disk.read(&path).unwrap();
    let files = disk.list(&image_dir(Path::new("/db"))).unwrap();
    let list = (files.iter().map(|file| &file.path))
        .find(|path| path.extension().is_some_and(|it| it == "list"));
    let list = disk.read(list.unwrap()).unwrap();
    let mends = image_list::MENDS;
    let is_manifest = image_list::IS_MANIFEST;
    let mut seeds = vec![];
    for (name, kind, file) in [("list", 0, list), ("manifest", is_manifest, manifest)] {
        let head = file.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let as_it_is = [&[kind], &file[..]].concat();
        let body = [&[kind | mends], &file[head..]].concat();
        seeds.push((format!("seed-{name}"), as_it_is));
        seeds.push((format!("seed-{name}-body"), body));
    }
    seeds
}

fn of_plans() -> Vec<(String, Vec<u8>)> {
    let stored = namiki_exec::plan::stored::names().map(|name| {
        let plan = namiki_exec::plan::stored::named(name).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        (format!("seed-{name}"), text.into_bytes())
    });
    let by_hand = [
        (
            "seed-expressions",
            r#"{"filter":{"input":{"scan":{"table":"t","range":{"equal":[1]}}},"keep":{"and":[{"or":[{"<":["u",{"u64":7}]},
            {"not":{"is_null":"name"}}]},{"starts_with":["name",{"text":"a"}]},{"in":["d",0.05,{"decimal":"-1.50"},null]},
            {"=":["day",{"date":"1995-03-15"}]},{">":[{"+":["id",{"*":[2,"id"]}]},3]},{"<>":["raw",{"hex":"00ff"}]}]}}}"#,
        ),
        (
            "seed-joins",
            r#"{"limit":{"rows":9,"input":{"sort":{"by":["t.id",{"descending":"u.id"}],"input":{"aggregate":{"group_by":["t.id",
            "u.id"],"calculate":[{"function":"count","as":"n"}],"input":{"hash_join":{"build":{"find":{"table":"t","filter":true}},
            "probe":{"index_scan":{"table":"u","index":"by_u","range":{"one_of":[[1,2]]}}},"on":[["t.id","u.id"]]}}}}}}}}"#,
        ),
    ];
    let by_hand = by_hand.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    stored.chain(by_hand).collect()
}

fn of_clients() -> Vec<(String, Vec<u8>)> {
    let hello = Request::Hello {
        magic: MAGIC,
        version: PROTOCOL_VERSION,
        cluster: 7,
    };
    let transfer = Command::Transfer {
        table: 1,
        from: 300,
        to: 70_000,
        amount: 5,
    };
    let condition = Condition {
        table: 1,
        key: b"key".to_vec(),
        value: Some(b"old".to_vec()),
    };
    let write = Command::Write(Box::new(Write {
        conditions: vec![condition],
        rows: vec![(1, b"key".to_vec(), None)],
    }));
    let submit = Request::Submit {
        session: SessionId(3),
        fence: 3,
        group: 9,
        acknowledged_through: 8,
        commands: vec![transfer, write],
    };
    let read = Request::Read {
        request: 1,
        freshness: Freshness::AtLeast(300),
        keys: vec![(1, b"key".to_vec())],
    };
    let create = Request::CreateTable {
        name: "accounts".to_owned(),
        eight_byte_keys: true,
    };
    let results = Response::Results {
        session: SessionId(3),
        group: 9,
        outcomes: vec![Outcome::Done, Outcome::Invalid],
        lsn: 12,
    };
    let rows = Response::Rows {
        request: 1,
        values: vec![Some(b"value".to_vec()), None],
        lsn: 12,
    };
    let away = Response::NotLeader {
        request: 1,
        leader: Some((2, "host:1".to_owned())),
    };
    let mut to_node = vec![0, 255];
    let resume = Request::ResumeSession {
        session: SessionId(3),
        nonce: 300,
        attempt: 7,
    };
    let ask = Request::Outcomes {
        request: 1,
        session: SessionId(3),
        fence: 40,
        group: 9,
    };
    let requests = [hello, submit, read, create, resume, ask, Request::Status];
    for request in requests {
        encode(&request, &mut to_node).unwrap();
    }
    let mut to_client = vec![client_frames::AT_CLIENT, 255];
    let resumed = Response::SessionResumed {
        session: SessionId(3),
        fence: 40,
        first_group: 1 << 33,
        acknowledged_through: 8,
        groups: vec![9],
        lsn: 41,
    };
    let outcomes = Response::GroupOutcomes {
        request: 1,
        outcomes: Some(vec![Some(Outcome::Done), None]),
        lsn: 41,
    };
    let behind = Response::Behind {
        request: 1,
        applied: 7,
        wanted: 9,
    };
    for response in [results, rows, away, resumed, outcomes, behind] {
        encode(&response, &mut to_client).unwrap();
    }
    vec![
        ("seed-requests".to_owned(), to_node),
        ("seed-responses".to_owned(), to_client),
    ]
}
