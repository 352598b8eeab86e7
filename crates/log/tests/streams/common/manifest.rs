//! A manifest as an engine keeps one: the generations of the log, and the stamp of the image.

use std::path::Path;

use namiki_log::{GenerationInfo, generations_contradiction};
use namiki_platform::disk::Disk;
use namiki_platform::{Generation, Stamp};
use serde_json::json;

const PATH: &str = "/db/manifest";

/// The engine's state outside of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) generations: Vec<GenerationInfo>,
    pub(crate) next: Generation,
    /// Earlier generations are deleted.
    pub(crate) oldest: Generation,
    /// Everything at or below it is in the image.
    pub(crate) image: Stamp,
}

impl Manifest {
    pub(crate) fn of(info: GenerationInfo) -> Self {
        Self {
            next: info.generation.next(),
            oldest: Generation(0),
            generations: vec![info],
            image: Stamp(0),
        }
    }

    /// The current generation.
    pub(crate) fn last(&mut self) -> &mut GenerationInfo {
        self.generations.last_mut().unwrap()
    }

    pub(crate) fn write(&self, disk: &dyn Disk) {
        let Self {
            generations,
            next,
            oldest,
            image,
        } = self;
        assert_eq!(generations_contradiction(generations, *next), None);
        let numbers = json!([next.0, oldest.0, image.0]);
        let text = json!([generations, numbers]).to_string();
        disk.replace(Path::new(PATH), text.as_bytes()).unwrap();
    }

    pub(crate) fn read(disk: &dyn Disk) -> Self {
        let text = disk.read(Path::new(PATH)).unwrap();
        let (generations, (next, oldest, image)): (Vec<GenerationInfo>, (u32, u32, u64)) =
            serde_json::from_slice(&text).unwrap();
        let next = Generation(next);
        assert_eq!(generations_contradiction(&generations, next), None);
        Self {
            generations,
            next,
            oldest: Generation(oldest),
            image: Stamp(image),
        }
    }
}
