//! A disk in memory that remembers everything done to it, loses what a real one could lose, and
//! fails when told to.
//!
//! Every step is an event of a trace. After (or during) a run, [`SimDisk::crash_image`] is the
//! disk that a power cut after any of the events could have left, as a disk of its own, with its
//! own trace: so recovery can be crashed as well. [`SimDisk::kill_image`] is the disk that a killed process could have left. Acknowledgements given by the system under test
//! are put into the trace as marks, and [`SimDisk::marks_before`] says which had been given.
//!
//! ```
//! use std::path::Path;
//! use namiki_platform::disk::sim::{Loss, SimDisk};
//! use namiki_platform::disk::{AlignedBuf, Disk};
//!
//! let disk = SimDisk::new();
//! let file = disk.create(Path::new("/log"), 4096)?;
//! disk.sync_dir(Path::new("/"))?;
//! file.write_durable(0, &AlignedBuf::zeroed(1024))?;
//! disk.mark(1);
//! for at in 0..=disk.events() {
//!     for sector in 0..disk.pending_sectors(at) {
//!         let image = disk.crash_image(at, Loss::Only(sector));
//!         // Recover from `image`; what `disk.marks_before(at)` acknowledged must be there.
//!         assert!(image.list(Path::new("/"))?.len() <= 1);
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Its rules are harsher than a real disk's wherever real disks differ:
//! - a write under way leaves any subset of its sectors (of 512 bytes, or as long as shorter
//!   blocks), and several can be under way;
//! - a failed write may surface at any later crash, until it is overwritten;
//! - names that were not synced are lost from some point on, in the order of their changes; on a
//!   disk with separate directories, in the order of those of each directory.
//!
//! Pages that were never written are holes. Readers see a write when it is durable, not before.
//! Nothing here depends on time; which thread comes first does, unless there is only one.

mod append;
mod contents;
mod cow_pages;
mod fault;
mod preallocation;
mod reads;
mod trace;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::append::SimAppender;
use self::contents::{Contents, FileId, NameChange};
use self::cow_pages::Pages;
use self::fault::{Failure, Faults};
use self::preallocation::SimPreallocation;
use self::reads::{ReadPlan, SimReads};
use self::trace::{Event, Frontier};
use super::directory::directory_lock;
use super::file_names::{already_exists, is_own, is_unfinished, parent_of, temporary_path};
use super::file_system::file_backed;
use super::{
    AlignedBuf, Appender, DirLock, Disk, DiskFile, FileEntry, FileKind, FramePool, PendingWrite,
    Preallocation, ReadQueue,
};
use crate::fork_check::ProcessToken;
use crate::seeded_random::Random;

pub use fault::{Fault, Step};
pub use reads::{ReadFaultCounts, ReadFaults};
pub use trace::Loss;

pub use super::SECTOR_BYTES;

/// A simulated disk. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// The state at the event asked for last, so that asking in order costs one event each.
    /// Locked before `state` where both are.
    frontier: Mutex<Frontier>,
    /// The contents before the first event.
    base: Contents,
}

struct State {
    /// The contents that readers see.
    live: Contents,
    trace: Vec<Event>,
    /// Marks, and how many events were before each.
    marks: Vec<(usize, u64)>,
    locked: BTreeSet<Arc<Path>>,
    faults: Faults,
    capacity_bytes: Option<u64>,
    /// Taken ahead, see [`Preallocation`].
    preallocated_bytes: u64,
    files_ever: FileId,
    writes_ever: u64,
    yields: Option<Random>,
    incomplete_polls: Option<u64>,
    reads: ReadPlan,
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::holding(Contents::default())
    }

    /// An empty disk on which a sync of a directory makes no names durable but those of that
    /// directory. On a journaling file system, it makes all older changes durable, too; another one
    /// need not.
    #[must_use]
    pub fn with_separate_directories() -> Self {
        Self::holding(Contents {
            has_separate_dirs: true,
            ..Contents::default()
        })
    }

    /// The same disk, empty, in blocks of this length, as memory has them: a crash keeps or loses
    /// each block of a write, instead of each sector of 512 bytes.
    ///
    /// # Panics
    /// If the disk has been written to, or if blocks cannot be that long.
    #[must_use]
    pub fn with_blocks(self, block_bytes: usize) -> Self {
        assert!(block_bytes.is_power_of_two() && (64..=SECTOR_BYTES).contains(&block_bytes));
        assert_eq!(self.events(), 0, "it has been written to");
        Self::holding(Contents {
            sector_bytes: block_bytes,
            ..self.0.base.clone()
        })
    }

    fn holding(base: Contents) -> Self {
        let files_ever = base.bodies.keys().next_back().map_or(0, |last| last + 1);
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                live: base.clone(),
                trace: Vec::new(),
                marks: Vec::new(),
                locked: BTreeSet::new(),
                faults: Faults::default(),
                capacity_bytes: None,
                preallocated_bytes: 0,
                files_ever,
                writes_ever: 0,
                yields: None,
                incomplete_polls: None,
                reads: ReadPlan::new(),
            }),
            frontier: Mutex::new(Frontier::new(base.clone())),
            base,
        }))
    }

    /// Lets a writing thread yield a few times, chosen by `seed`, while its write is under way,
    /// so that the writes of several threads overlap also on few processors.
    #[must_use]
    pub fn with_yields(self, seed: u64) -> Self {
        self.0.state.lock().yields = Some(Random::seeded(seed));
        self
    }

    /// Lets the next writes that are begun answer that they are not complete as often as said, and
    /// never anything else if that is `u64::MAX`: they then end when they are waited for. Without
    /// this, some are complete at once, some after two questions, and some never.
    pub fn complete_after(&self, questions: u64) {
        self.0.state.lock().incomplete_polls = Some(questions);
    }

    /// Limits the bytes of all files together, or lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.state.lock().capacity_bytes = bytes;
    }

    /// Plans a failure. Several may be planned; each counts steps for itself from now on.
    pub fn inject(&self, fault: Fault) {
        self.0.state.lock().faults.add(fault);
    }

    /// Lets `writes` more writes succeed and fails all that follow, until [`SimDisk::heal`].
    pub fn fail_after(&self, writes: u64, kind: ErrorKind) {
        self.inject(Fault::once(Step::Write, writes, kind).and_ever_after());
    }

    /// Cancels the failures still planned.
    pub fn heal(&self) {
        let mut state = self.0.state.lock();
        state.faults.clear();
        state.reads.heal();
    }

    /// Puts a mark into the trace, usually the number of something just acknowledged.
    pub fn mark(&self, mark: u64) {
        let mut state = self.0.state.lock();
        let before = state.trace.len();
        state.marks.push((before, mark));
        state.trace.push(Event::Mark(mark));
    }

    /// Silent corruption: changes bytes of a file without the writer's knowledge, as a failing disk
    /// does.
    ///
    /// # Errors
    /// `NotFound`; `InvalidInput` beyond the file's end.
    pub fn damage(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let (file, body) = state.live.body_at(path).ok_or_else(|| not_found(path))?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > body.len_bytes()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        state.live.write(file, offset, bytes);
        state.trace.push(Event::Damage {
            file,
            offset,
            bytes: bytes.into(),
        });
        Ok(())
    }

    /// Silent corruption: flips the bits of `mask` in one byte of a file, whatever stands there. The
    /// same call again restores the byte.
    ///
    /// # Errors
    /// Like [`SimDisk::damage`].
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let bytes = self.read(path)?;
        let at = usize::try_from(offset).ok();
        let byte = at.and_then(|at| bytes.get(at));
        let byte = byte.ok_or(ErrorKind::InvalidInput)?;
        self.damage(path, offset, &[byte ^ mask])
    }

    /// Number of events up to now.
    #[must_use]
    pub fn events(&self) -> usize {
        self.0.state.lock().trace.len()
    }

    /// The event with this number from 0, for messages of failed tests.
    #[must_use]
    pub fn describe(&self, event: usize) -> String {
        match self.0.state.lock().trace.get(event) {
            Some(event) => format!("{event:?}"),
            None => "no event".to_owned(),
        }
    }

    /// The marks among the first `at` events, in order.
    #[must_use]
    pub fn marks_before(&self, at: usize) -> Vec<u64> {
        let state = self.0.state.lock();
        let count = state.marks.partition_point(|(before, _)| *before < at);
        state.marks[..count].iter().map(|(_, mark)| *mark).collect()
    }

    /// Number of sectors that were written but not durable after the first `at` events.
    #[must_use]
    pub fn pending_sectors(&self, at: usize) -> usize {
        self.at(at, Frontier::pending_sectors)
    }

    /// Number of name changes that were not durable after the first `at` events.
    #[must_use]
    pub fn pending_names(&self, at: usize) -> usize {
        self.at(at, Frontier::pending_names)
    }

    /// The disk that a power cut after the first `at` events leaves, as a disk of its own: with
    /// nothing locked, no limit, and no failure planned. Cheapest when asked for in the order of
    /// events.
    ///
    /// # Panics
    /// If there have not been that many events.
    #[must_use]
    pub fn crash_image(&self, at: usize, loss: Loss) -> Self {
        Self::holding(self.at(at, |frontier| frontier.crash(loss)))
    }

    /// The disk as a process leaves it that is killed after the first `at` events, as a disk of its own, with nothing locked: its
    /// readers see all names, and of the sectors that are not durable this number, oldest first; all others were never
    /// written. A crash of the new disk may lose those that are not durable, and no sync of a file keeps them: they have to be written again.
    ///
    /// # Panics
    /// If there have not been that many events.
    #[must_use]
    pub fn kill_image(&self, at: usize, sectors: usize) -> Self {
        let killed = self.at(at, |frontier| frontier.kill(sectors));
        let disk = Self::holding(killed.base);
        {
            let mut state = disk.0.state.lock();
            (state.live, state.trace) = (killed.live, killed.pending);
            state.writes_ever = killed.writes;
        }
        disk
    }

    fn at<R>(&self, at: usize, ask: impl FnOnce(&Frontier) -> R) -> R {
        let mut frontier = self.0.frontier.lock();
        if frontier.at > at {
            *frontier = Frontier::new(self.0.base.clone());
        }
        if frontier.at < at {
            let state = self.0.state.lock();
            let events = state.trace.len();
            assert!(at <= events, "event {at} of {events}");
            for event in &state.trace[frontier.at..at] {
                frontier.advance(event);
            }
        }
        ask(&frontier)
    }

    fn step(&self, step: Step) -> io::Result<()> {
        let met = self.0.state.lock().faults.meet(step);
        met.map_err(Failure::into_error)
    }

    /// A step that changes names, or makes such changes durable: it may fail before or after it
    /// takes place.
    fn step_of_names(
        &self,
        step: Step,
        take_place: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> io::Result<()> {
        let failure = {
            let mut state = self.0.state.lock();
            let failure = state.faults.meet(step).err();
            if failure.as_ref().is_none_or(|failure| failure.takes_place) {
                take_place(&mut state)?;
            }
            failure
        };
        failure.map_or(Ok(()), |failure| Err(failure.into_error()))
    }

    /// Begins, lets others run, ends.
    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let begun = self.begin(file, offset, bytes);
        for _ in 0..begun.yields {
            std::thread::yield_now();
        }
        self.end(begun).map_err(Failure::into_error)
    }

    fn begin(&self, file: FileId, offset: u64, bytes: &[u8]) -> Begun {
        let bytes: Arc<[u8]> = bytes.into();
        let mut state = self.0.state.lock();
        let failure = state.faults.meet(Step::Write).err();
        let write = state.writes_ever;
        state.writes_ever += 1;
        state.trace.push(Event::Begin {
            write,
            file,
            offset,
            bytes: Arc::clone(&bytes),
        });
        let yields = state.yields.as_mut().map_or(0, |random| random.below(4));
        Begun {
            write,
            file,
            offset,
            bytes,
            failure,
            yields,
        }
    }

    fn end(&self, begun: Begun) -> Result<(), Failure> {
        let Begun {
            write,
            file,
            offset,
            bytes,
            failure,
            ..
        } = begun;
        let mut state = self.0.state.lock();
        let Some(failure) = failure else {
            state.live.write(file, offset, &bytes);
            state.trace.push(Event::End(write));
            return Ok(());
        };
        if let Some(seed) = failure.torn {
            let mut random = Random::seeded(seed);
            let sector_bytes = state.live.sector_bytes;
            for (number, sector) in bytes.chunks(sector_bytes).enumerate() {
                if random.chance(0.5) {
                    let at = offset + (number * sector_bytes) as u64;
                    state.live.write(file, at, sector);
                }
            }
        }
        state.trace.push(Event::Fail(write));
        Err(failure)
    }

    fn file(&self, id: FileId, len_bytes: u64) -> Arc<SimFile> {
        Arc::new(SimFile {
            disk: self.clone(),
            id,
            len_bytes,
        })
    }
}

impl State {
    fn change(&mut self, change: NameChange) {
        self.live.apply(&change);
        self.trace.push(Event::Names(change));
    }

    fn require_dir(&self, dir: &Path) -> io::Result<()> {
        if self.live.has_dir(dir) {
            Ok(())
        } else {
            Err(not_found(dir))
        }
    }

    fn require_room(&self, bytes: u64) -> io::Result<()> {
        let Some(capacity) = self.capacity_bytes else {
            return Ok(());
        };
        let used = self.live.used_bytes() + self.preallocated_bytes;
        if used.checked_add(bytes).is_some_and(|all| all <= capacity) {
            return Ok(());
        }
        Err(io::Error::new(
            ErrorKind::StorageFull,
            format!("{bytes} bytes on top of {used} do not fit on {capacity}"),
        ))
    }

    /// A new file of zeros under a name that may replace another's.
    fn add(&mut self, path: &Path, len_bytes: u64) -> io::Result<FileId> {
        self.require_dir(parent_of(path))?;
        self.require_room(len_bytes)?;
        let file = self.files_ever;
        self.files_ever += 1;
        self.live.bodies.insert(file, Pages::zeroed(len_bytes));
        self.trace.push(Event::Body(file, len_bytes));
        self.change(NameChange::Create(path.into(), file));
        Ok(file)
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.state.lock();
        let (files, events) = (state.live.names.len(), state.trace.len());
        write!(f, "SimDisk({files} files after {events} events)")
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.0.state.lock();
        let (file, body) = state.live.body_at(path).ok_or_else(|| not_found(path))?;
        Ok(self.file(file, body.len_bytes()))
    }

    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.step(Step::Create)?;
        let mut state = self.0.state.lock();
        if state.live.names.contains_key(path) || state.live.dirs.contains(path) {
            return Err(already_exists(path));
        }
        let file = state.add(path, len_bytes)?;
        Ok(self.file(file, len_bytes))
    }

    fn preallocation(&self, dir: &Path) -> io::Result<Option<Box<dyn Preallocation>>> {
        let _ = dir;
        Ok(Some(Box::new(SimPreallocation::new(self))))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.step(Step::Read)?;
        let state = self.0.state.lock();
        let (_, body) = state.live.body_at(path).ok_or_else(|| not_found(path))?;
        let mut bytes = vec![0; body.len_bytes() as usize];
        body.read(0, &mut bytes);
        Ok(bytes)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(Step::Create)?;
        let temporary = temporary_path(path);
        let file = self.0.state.lock().add(&temporary, bytes.len() as u64)?;
        let written = self
            .write(file, 0, bytes)
            .and_then(|()| self.rename(&temporary, path));
        if let Err(error) = written {
            let removed = NameChange::Remove(temporary.into());
            self.0.state.lock().change(removed);
            return Err(error);
        }
        self.sync_dir(parent_of(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<FileEntry>> {
        let state = self.0.state.lock();
        state.require_dir(dir)?;
        let here = state.live.names.iter().filter(|(path, _)| {
            // The order of a map of paths is that of names within one directory.
            parent_of(path) == dir && !is_own(path)
        });
        Ok(here
            .filter_map(|(path, file)| {
                let body = state.live.bodies.get(file)?;
                Some(FileEntry {
                    path: path.to_path_buf(),
                    kind: FileKind::Regular,
                    len_bytes: body.len_bytes(),
                })
            })
            .collect())
    }

    fn unfinished(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.0.state.lock();
        state.require_dir(dir)?;
        let here = state.live.names.keys();
        let here = here.filter(|path| parent_of(path) == dir && is_unfinished(path));
        Ok(here.map(|path| path.to_path_buf()).collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let levels: Vec<&Path> = dir.ancestors().collect();
        for level in levels.into_iter().rev() {
            {
                let mut state = self.0.state.lock();
                if state.live.names.contains_key(level) {
                    return Err(already_exists(level));
                }
                if state.live.has_dir(level) {
                    continue;
                }
                state.change(NameChange::CreateDir(level.into()));
            }
            self.sync_dir(parent_of(level))?;
        }
        // It may be there without being durable.
        match dir.parent() {
            Some(parent) => self.sync_dir(parent),
            None => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step_of_names(Step::Rename, |state| {
            state.live.body_at(from).ok_or_else(|| not_found(from))?;
            state.require_dir(parent_of(to))?;
            state.change(NameChange::Rename(from.into(), to.into()));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step_of_names(Step::Remove, |state| {
            state.live.body_at(path).ok_or_else(|| not_found(path))?;
            state.change(NameChange::Remove(path.into()));
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step_of_names(Step::SyncDir, |state| {
            state.require_dir(dir)?;
            state.trace.push(Event::SyncDir(dir.into()));
            Ok(())
        })
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        let mut state = self.0.state.lock();
        state.require_dir(dir)?;
        let dir: Arc<Path> = dir.into();
        if !state.locked.insert(Arc::clone(&dir)) {
            return Err(directory_lock::busy(&dir));
        }
        Ok(DirLock::new(HeldDirLock {
            disk: self.clone(),
            dir,
            process: ProcessToken::current(),
        }))
    }

    fn reads(&self, depth: usize, _: &Arc<FramePool>) -> io::Result<Box<dyn ReadQueue>> {
        Ok(Box::new(SimReads::new(self.clone(), depth)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Appender>> {
        Ok(Box::new(SimAppender::new(self.clone(), path)?))
    }
}

struct HeldDirLock {
    disk: SimDisk,
    dir: Arc<Path>,
    process: ProcessToken,
}

impl Drop for HeldDirLock {
    fn drop(&mut self) {
        // A forked child has a copy of the disk, which a thread of the parent may have had locked.
        if self.process.is_current() {
            self.disk.0.state.lock().locked.remove(&self.dir);
        }
    }
}

/// A write under way.
struct Begun {
    write: u64,
    file: FileId,
    offset: u64,
    bytes: Arc<[u8]>,
    failure: Option<Failure>,
    yields: u64,
}

/// A write under way that has no waiter yet.
struct SimWrite {
    disk: SimDisk,
    /// None once it has ended.
    begun: Option<Begun>,
    buf: AlignedBuf,
    /// Number of polls that still find it incomplete.
    incomplete_polls: u64,
}

impl PendingWrite for SimWrite {
    fn is_complete(&mut self) -> bool {
        match self.incomplete_polls {
            0 => true,
            u64::MAX => false,
            _ => {
                self.incomplete_polls -= 1;
                false
            }
        }
    }

    fn wait(mut self: Box<Self>) -> (AlignedBuf, io::Result<()>) {
        let ended = self.begun.take().map_or(Ok(()), |it| self.disk.end(it));
        let outcome = ended.map_err(Failure::into_error);
        (std::mem::take(&mut self.buf), outcome)
    }
}

impl Drop for SimWrite {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            drop(self.disk.end(begun));
        }
    }
}

struct SimFile {
    disk: SimDisk,
    id: FileId,
    len_bytes: u64,
}

impl std::fmt::Debug for SimFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimFile({} of {} bytes)", self.id, self.len_bytes)
    }
}

impl DiskFile for SimFile {
    fn write_durable(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file_backed::check_write(self, offset, bytes)?;
        self.disk.write(self.id, offset, bytes)
    }

    fn begin_write(
        &self,
        offset: u64,
        buf: AlignedBuf,
        len: usize,
    ) -> Result<Box<dyn PendingWrite>, AlignedBuf> {
        if file_backed::check_write(self, offset, &buf[..len]).is_err() {
            return Err(buf);
        }
        let begun = self.disk.begin(self.id, offset, &buf[..len]);
        let told = self.disk.0.state.lock().incomplete_polls;
        Ok(Box::new(SimWrite {
            disk: self.disk.clone(),
            incomplete_polls: told.unwrap_or(match begun.write % 3 {
                0 => 0,
                1 => 2,
                _ => u64::MAX,
            }),
            begun: Some(begun),
            buf,
        }))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        file_backed::check_alignment(self, offset, into.len(), into.as_ptr())?;
        self.disk.step(Step::Read)?;
        let state = self.disk.0.state.lock();
        let body = state.live.bodies.get(&self.id);
        Ok(body.map_or(0, |body| body.read(offset, into)))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let state = self.disk.0.state.lock();
        let body = state.live.bodies.get(&self.id);
        Ok(body.and_then(|body| body.next_data(offset)))
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_bytes(&self) -> usize {
        self.disk.0.base.sector_bytes
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(
        ErrorKind::NotFound,
        format!("there is no {}", path.display()),
    )
}
