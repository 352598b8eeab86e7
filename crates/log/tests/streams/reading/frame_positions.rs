//! Positions of frames: the group gets them, and readers return the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::common::*;
use namiki_log::{Entry, FramePosition, GroupResource, Layout, Log, Placement, log_file_path};
use namiki_platform::disk::{Disk, SimDisk, read_unaligned};
use namiki_platform::{Epoch, Stamp, WorkerId};

type Frames = Arc<Mutex<Vec<(FramePosition, Vec<Vec<u8>>)>>>;

/// The payloads of a group, which are added to a list with the position of their frame.
#[derive(Default)]
struct Group {
    payloads: Vec<Vec<u8>>,
    frames: Option<Frames>,
}

impl GroupResource for Group {
    fn written(&mut self, position: FramePosition) {
        if let Some(frames) = &self.frames {
            let frame = (position, self.payloads.clone());
            frames.lock().unwrap().push(frame);
        }
    }

    fn release(&mut self) {
        // The position was reported before.
        let frames = self.frames.as_ref().map(|frames| frames.lock().unwrap());
        assert!(frames.is_none_or(|it| it.last().unwrap().1 == self.payloads));
        self.payloads.clear();
    }

    fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }
}

#[test]
fn groups_and_readers_know_the_same_positions() {
    for layout in [Layout::PerWorker, Layout::Single] {
        for placement in [config(1).placement, shared(128 << 10)] {
            let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
            let mut config = config(3);
            config.layout = layout;
            config.placement = placement;
            config.group = count(5);
            // Full groups are flushed asynchronously, if the disk supports that.
            config.async_flush_min_commits = NonZeroU32::new(5);
            let log: Arc<Log<Group>> = create(&disk, config.clone());
            let frames = Frames::default();
            for n in 0..200u64 {
                let stream = log.stream(WorkerId((n % 3) as u16));
                let payload = vec![n as u8; (n * 13 % 600) as usize];
                let hold = |group: &mut Group| {
                    group.payloads.push(payload.clone());
                    group.frames = Some(Arc::clone(&frames));
                };
                let encode = |into: &mut [u8], _| into.copy_from_slice(&payload);
                let (stamp, epoch) = (Stamp(n), Epoch(0));
                let appended = stream
                    .append(Entry::Commit, stamp, epoch, payload.len(), encode, hold)
                    .unwrap();
                if appended.group_is_full {
                    stream.begin_flush(appended.ticket).unwrap();
                }
            }
            log.close().unwrap();
            let mut told = std::mem::take(&mut *frames.lock().unwrap());
            assert!(told.iter().any(|(_, payloads)| payloads.len() == 5));
            let info = info(&config);
            for worker in 0..info.streams {
                let mut reader = reader(&disk, &info, worker).unwrap();
                while let Some(frame) = reader.next_frame().unwrap() {
                    let at = told.iter().position(|(it, _)| *it == frame.position);
                    let (position, payloads) = told.swap_remove(at.unwrap());
                    assert_eq!(position.worker, WorkerId(worker));
                    assert_eq!(position.length, frame.header.length);
                    let found: Vec<_> = frame.records().map(|it| it.payload.to_vec()).collect();
                    assert_eq!(found, payloads);
                    let path = match &config.placement {
                        Placement::Files { .. } => position.log_file_path(&wal()),
                        Placement::Shared { path, .. } => path.clone(),
                    };
                    let file = disk.open(&path).unwrap();
                    let lengths = payloads.iter().map(Vec::len);
                    for (payload, at) in payloads.iter().zip(position.payload_offsets(lengths)) {
                        let read = read_unaligned(&*file, at, payload.len()).unwrap();
                        assert_eq!(read.bytes(), payload);
                    }
                }
            }
            assert_eq!(told, [], "frames that no reader has found");
        }
    }
}

#[test]
fn a_files_path_names_stream_generation_and_number() {
    let path = log_file_path(&wal(), namiki_platform::Generation(7), WorkerId(12), 345);
    assert_eq!(path, PathBuf::from("/db/wal/0012/000007-00000345.log"));
}
