//! A log of one generation: its streams, its horizon, its threads.

use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use namiki_platform::disk::{AlignedBuf, Disk};
use namiki_platform::{Epoch, Lsn, Stamp, WorkerId};

use crate::background;
use crate::config::{Held, LogConfig, Placement, Prepare};
use crate::epochs::EpochHorizon;
use crate::error::LogError;
use crate::horizon::Horizon;
use crate::info::Seal;
use crate::place::{Place, RegionPlace, SegmentMaker, SegmentPlace, open_shared};
use crate::shared::{Doorbell, Poison, Requests, Shared};
use crate::stream::{Stream, Ticket};
use crate::sync::Mutex;
use crate::watch::{Watch, Watchers};

/// What the log's threads share with its handle.
pub(crate) struct Streams<H: Held> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) list: Box<[CachePadded<Stream<H>>]>,
}

/// A write-ahead log of parallel streams, writing one generation.
///
/// Dropping it stops its threads, waits for writes that are under way and begins none: what was not
/// hardened is lost, as in a crash.
/// [`Log::close`] is the orderly end.
pub struct Log<H: Held> {
    streams: Arc<Streams<H>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Sums over all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Frames written.
    pub flushes: u64,
    /// Those of them that were left to the disk while their worker went on.
    pub launched: u64,
    /// Bytes of frames written, padding included.
    pub frame_bytes: u64,
    /// Commits hardened.
    pub commits: u64,
    /// Attempts to draw an LSN that somebody else won; compare-and-swap only.
    pub cas_misses: u64,
    /// Sum over all frames of the time from the beginning of the write until its end was seen.
    pub flush_ns: u64,
}

impl<H: Held> Log<H> {
    /// Creates the log of a new generation in `dir`, the database's `wal` directory.
    ///
    /// Segment files are made when a stream is first used, or by [`Log::prepare_segments`]; a shared
    /// device is created here if there is none. On return every stream has durably what a reader of
    /// the generation must find: its directory, or the head of its region. Where a crash came before
    /// either, the same generation can be created again.
    ///
    /// # Errors
    /// [`LogError::InvalidConfig`], [`LogError::GenerationExists`], [`LogError::Foreign`],
    /// [`LogError::DeviceTooSmall`], [`LogError::DiskFull`], or the disk's own.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: LogConfig,
    ) -> Result<Arc<Self>, LogError> {
        config.check()?;
        let count = config.stream_count();
        let has_flusher = config.group_wait_max != Duration::MAX;
        let has_segments = matches!(config.placement, Placement::Segments { .. });
        let shared = Arc::new(Shared {
            generation: config.generation,
            horizon: Horizon::new(config.sequencer, config.first_lsn, count),
            epochs: (config.epochs.clone()).map(|source| EpochHorizon::new(source, count)),
            poison: Poison::new(),
            prepare: config.prepare,
            launch_from: config.launches_from(),
            has_flusher,
            flusher: CachePadded::new(Doorbell::new()),
            preparer: CachePadded::new(Requests::new()),
        });
        let device = match &config.placement {
            Placement::Segments { .. } => {
                // By itself, because it may be there without being durable.
                disk.create_dir_all(dir)
                    .map_err(|source| LogError::device("opening", dir, source))?;
                None
            }
            Placement::Shared { path, region_bytes } => {
                Some(open_shared(&*disk, path, count, *region_bytes)?)
            }
        };
        let mut list = Vec::with_capacity(count);
        let mut buffers = AlignedBuf::zeroed_together(2 * count, config.buffer_len()).into_iter();
        // At most 1 GiB: checked.
        let frame_bytes_max = config.buffer_len() as u32;
        for index in 0..count {
            // `stream_count` comes from a u16.
            let worker = WorkerId(index as u16);
            let (place, maker) = match &config.placement {
                Placement::Segments { segment_bytes } => {
                    let maker = SegmentMaker::new(
                        Arc::clone(&disk),
                        dir,
                        *segment_bytes,
                        config.identity,
                        config.generation,
                        worker,
                        frame_bytes_max,
                    );
                    maker.open_dir()?;
                    let place = SegmentPlace::new(config.identity, *segment_bytes, config.retain);
                    (Place::Segments(place), Some(maker))
                }
                Placement::Shared { path, region_bytes } => {
                    let Some(file) = &device else { continue };
                    let place = RegionPlace::open(
                        Arc::clone(file),
                        Arc::from(path.as_path()),
                        *region_bytes,
                        config.identity,
                        config.generation,
                        worker,
                        frame_bytes_max,
                    )?;
                    (Place::Region(place), None)
                }
            };
            let two = std::array::from_fn(|_| buffers.next().expect("there are two for each"));
            let stream = Stream::new(Arc::clone(&shared), worker, &config, two, place, maker);
            list.push(CachePadded::new(stream));
        }
        let streams = Arc::new(Streams {
            shared,
            list: list.into(),
        });
        let log = Arc::new(Self {
            streams: Arc::clone(&streams),
            threads: Mutex::new(Vec::new()),
        });
        // The threads of a model are its own.
        if has_flusher && !cfg!(loom) {
            let streams = Arc::clone(&streams);
            let group_wait_max = config.group_wait_max;
            log.spawn("namiki-log-flush", move || {
                background::flush_late(&streams, group_wait_max);
            })?;
        }
        if has_segments && config.prepare == Prepare::Background {
            log.spawn("namiki-log-segment", move || {
                background::prepare_ahead(&streams);
            })?;
        }
        Ok(log)
    }

    fn spawn(
        &self,
        name: &'static str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), LogError> {
        let handle = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(|source| LogError::device("starting thread", Path::new(name), source))?;
        self.threads.lock().push(handle);
        Ok(())
    }

    /// Makes segments until every stream has `count` ready beside the one it writes, rather than each
    /// when half of the one before it is used: for those who know how much they will write, and do
    /// not want to make files while they do. They come on top of those that
    /// [`crate::Retain`] keeps, and each holds a file open. No effect on a shared device.
    ///
    /// To be called when the generation is announced to whoever will read it: with a file there is,
    /// [`Log::create`] cannot start it again.
    ///
    /// # Errors
    /// [`LogError::DiskFull`], the disk's own, [`LogError::Closed`], or the error that poisoned the
    /// log. Segments that were made before that stay ready.
    pub fn prepare_segments(&self, count: usize) -> Result<(), LogError> {
        for stream in &self.streams.list {
            stream.prepare_segments(count)?;
        }
        Ok(())
    }

    /// How many streams there are; 1 under `Layout::Single`.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.list.len()
    }

    /// The stream of a worker: its number modulo the number of streams.
    #[must_use]
    pub fn stream(&self, worker: WorkerId) -> &Stream<H> {
        let index = usize::from(worker.0);
        match self.streams.list.get(index) {
            Some(stream) => stream,
            None => &self.streams.list[index % self.streams.list.len()],
        }
    }

    /// The last LSN drawn. Touches the shared counter, but does not write it.
    #[must_use]
    pub fn last_drawn(&self) -> Lsn {
        Lsn(self.streams.shared.horizon.sequencer.next() - 1)
    }

    /// Every LSN *below* this is hardened. It never goes back.
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.streams.shared.horizon.scan()
    }

    /// Whether `lsn` and every one below it is hardened. Usually one load.
    #[must_use]
    pub fn is_covered(&self, lsn: Lsn) -> bool {
        self.streams.shared.horizon.covers(lsn)
    }

    /// Returns when `lsn` and every one below it is hardened. Flushes the streams that lag rather
    /// than wait for their groups.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::NeverDrawn`].
    pub fn wait_covered(&self, lsn: Lsn) -> Result<(), LogError> {
        loop {
            if let Some(ended) = self.covered(lsn) {
                return ended;
            }
            for (index, stream) in self.streams.list.iter().enumerate() {
                if self.streams.shared.horizon.lags(index, lsn) {
                    stream.harden_lsn(lsn)?;
                }
            }
        }
    }

    /// How waiting for `lsn` ends; nothing if it has to go on.
    fn covered(&self, lsn: Lsn) -> Option<Result<(), LogError>> {
        let Shared {
            horizon, poison, ..
        } = &*self.streams.shared;
        if !horizon.sequencer.draws() {
            return Some(poison.check());
        }
        if horizon.covers(lsn) {
            return Some(Ok(()));
        }
        let next = Lsn(horizon.sequencer.next());
        if lsn >= next {
            return Some(Err(LogError::NeverDrawn { lsn, next }));
        }
        poison.get().map(Err)
    }

    /// As [`Stream::wait_hardened`] for a task, which the waker wakes when it should ask again. The
    /// flusher flushes what nobody else does; if there is none (`group_wait_max` is
    /// `Duration::MAX`), this waits like a thread.
    ///
    /// # Errors
    /// As [`Stream::wait_hardened`].
    pub fn poll_hardened(
        &self,
        ticket: Ticket,
        waker: &Waker,
        watch: &mut Watch,
    ) -> Poll<Result<(), LogError>> {
        let shared = &*self.streams.shared;
        let stream = self.stream(ticket.worker);
        if !shared.has_flusher {
            return Poll::Ready(stream.wait_hardened(ticket));
        }
        stream.check_ticket(ticket)?;
        let ended = || match stream.is_hardened(ticket) {
            true => Some(Ok(())),
            false => shared.poison.get().map(Err),
        };
        ended()
            .or_else(|| {
                // It may have been written while nobody looked. What went wrong, `ended` sees.
                drop(stream.poll());
                self.enter(usize::from(ticket.worker.0), waker, watch);
                ended()
            })
            .map_or(Poll::Pending, Poll::Ready)
    }

    /// As [`Log::wait_covered`] for a task: see [`Log::poll_hardened`]. The task is woken when a stream
    /// that lags has hardened something; an append that has just begun may look like one that lags
    /// until the next flush of its stream.
    ///
    /// # Errors
    /// As [`Log::wait_covered`].
    pub fn poll_covered(
        &self,
        lsn: Lsn,
        waker: &Waker,
        watch: &mut Watch,
    ) -> Poll<Result<(), LogError>> {
        if !self.streams.shared.has_flusher {
            return Poll::Ready(self.wait_covered(lsn));
        }
        let lags = |index: &usize| self.streams.shared.horizon.lags(*index, lsn);
        loop {
            if let Some(ended) = self.covered(lsn) {
                return Poll::Ready(ended);
            }
            let Some(index) = (0..self.streams.list.len()).find(lags) else {
                continue;
            };
            drop(self.streams.list[index].poll());
            self.enter(index, waker, watch);
            if let Some(ended) = self.covered(lsn) {
                return Poll::Ready(ended);
            }
            if lags(&index) {
                return Poll::Pending;
            }
        }
    }

    /// Through this epoch every commit is hardened in all streams, as somebody has found out. It never
    /// goes back. [`Epoch`] 0 where commits are not released by epochs.
    #[must_use]
    pub fn hardened_epoch(&self) -> Epoch {
        let epochs = self.streams.shared.epochs.as_ref();
        epochs.map_or(Epoch(0), EpochHorizon::hardened)
    }

    /// [`Log::hardened_epoch`] after a look at the streams; if nothing is pending in any of them, the
    /// current epoch is closed first. So one who commits and waits alone finds everything hardened.
    #[must_use]
    pub fn hardened_epoch_now(&self) -> Epoch {
        let Some(epochs) = &self.streams.shared.epochs else {
            return Epoch(0);
        };
        if !epochs.is_idle() {
            return epochs.hardened();
        }
        epochs.source.close(epochs.source.current());
        epochs.scan()
    }

    /// Through this epoch every commit may be acknowledged: all of them are hardened, and what is on the
    /// disk says so. It never goes back. [`Epoch`] 0 where commits are not released by epochs.
    #[must_use]
    pub fn proven_epoch(&self) -> Epoch {
        let epochs = self.streams.shared.epochs.as_ref();
        epochs.map_or(Epoch(0), EpochHorizon::proven)
    }

    /// Whether commits of `epoch`, and those who have read them, may be acknowledged. One load, if so.
    #[must_use]
    pub fn is_proven(&self, epoch: Epoch) -> bool {
        let epochs = self.streams.shared.epochs.as_ref();
        epochs.is_some_and(|epochs| epochs.proves(epoch))
    }

    /// Returns when `epoch` is proven; an epoch that is still to come counts as the current one. `ticket`
    /// is the commit that waits, if it is one, and its group is waited for first. Then streams that lag
    /// are flushed, and if what is on the disk does not prove the epoch, a frame that does is written.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Closed`]; [`LogError::RegionFull`] and
    /// [`LogError::DiskFull`] if there is no room for that frame: the outcome is unknown then.
    pub fn wait_proven(&self, ticket: Option<Ticket>, epoch: Epoch) -> Result<(), LogError> {
        let Some(epochs) = &self.streams.shared.epochs else {
            return self.streams.shared.poison.check();
        };
        let epoch = epoch.min(epochs.source.current());
        if epochs.proves(epoch) {
            return Ok(());
        }
        let mut home = 0;
        if let Some(ticket) = ticket {
            self.stream(ticket.worker).wait_hardened(ticket)?;
            home = usize::from(ticket.worker.0);
        }
        self.streams.prove(epochs, epoch, home)
    }

    /// As [`Log::wait_proven`] for a task: see [`Log::poll_hardened`].
    ///
    /// # Errors
    /// As [`Log::wait_proven`].
    pub fn poll_proven(
        &self,
        ticket: Option<Ticket>,
        epoch: Epoch,
        waker: &Waker,
        watch: &mut Watch,
    ) -> Poll<Result<(), LogError>> {
        let shared = &*self.streams.shared;
        let Some(epochs) = &shared.epochs else {
            return Poll::Ready(shared.poison.check());
        };
        if !shared.has_flusher {
            return Poll::Ready(self.wait_proven(ticket, epoch));
        }
        let epoch = epoch.min(epochs.source.current());
        if epochs.proves(epoch) {
            return Poll::Ready(Ok(()));
        }
        let since = *watch.refusals.get_or_insert_with(|| epochs.refusals());
        let ended = || match epochs.proves(epoch) {
            true => Some(Ok(())),
            false => {
                let refused = || epochs.refusal(epoch, since);
                shared.poison.get().or_else(refused).map(Err)
            }
        };
        ended()
            .or_else(|| {
                self.poll_epoch(epoch);
                self.enter(self.streams.list.len(), waker, watch);
                ended()
            })
            .map_or(Poll::Pending, Poll::Ready)
    }

    /// The task waits no longer.
    pub fn leave(&self, watch: &mut Watch) {
        if let Some((index, key)) = watch.place.take() {
            self.watchers(index).leave(key);
        }
    }

    /// Those who wait for a stream, or behind the last one, for an epoch.
    fn watchers(&self, index: usize) -> &Watchers {
        match (self.streams.list.get(index), &self.streams.shared.epochs) {
            (None, Some(epochs)) => &epochs.watchers,
            _ => &self.streams.list[index].watchers,
        }
    }

    /// Enters a task in the list of one stream, or of those who wait for an epoch, and in no other.
    fn enter(&self, index: usize, waker: &Waker, watch: &mut Watch) {
        let old = match watch.place {
            Some((at, key)) if at == index => Some(key),
            _ => {
                self.leave(watch);
                None
            }
        };
        let key = self.watchers(index).enter(waker, old);
        watch.place = Some((index, key));
    }

    /// Lands the flights of all streams that were launched and whose writes have come to their end: see
    /// [`Stream::poll`]. What went wrong, those learn who wait.
    pub fn poll(&self) {
        for stream in &self.streams.list {
            drop(stream.poll());
        }
    }

    /// [`Log::poll`] for the streams that keep `lsn` from being covered.
    pub fn poll_below(&self, lsn: Lsn) {
        for (index, stream) in self.streams.list.iter().enumerate() {
            if self.streams.shared.horizon.lags(index, lsn) {
                drop(stream.poll());
            }
        }
    }

    /// [`Log::poll`] for one who wants to know whether `epoch` is proven. From now on the flusher sees to it, if
    /// there is one.
    pub fn poll_epoch(&self, epoch: Epoch) {
        let shared = &*self.streams.shared;
        if let Some(epochs) = &shared.epochs
            && shared.has_flusher
            && epochs.want(epoch.min(epochs.source.current()))
        {
            shared.wake_flusher();
        }
        self.poll();
    }

    /// Hardens everything appended to any stream before the call.
    ///
    /// # Errors
    /// The error that poisoned the log.
    pub fn flush_all(&self) -> Result<(), LogError> {
        for stream in &self.streams.list {
            stream.flush()?;
        }
        Ok(())
    }

    /// The error after which the log accepts and acknowledges nothing, if there was one.
    #[must_use]
    pub fn poisoned(&self) -> Option<LogError> {
        self.streams.shared.poison.get()
    }

    /// Sums over all streams since the log was created.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        let mut sum = LogCounters::default();
        for stream in &self.streams.list {
            let one = stream.counters();
            sum.flushes += one.flushes;
            sum.launched += one.launched;
            sum.frame_bytes += one.frame_bytes;
            sum.commits += one.commits;
            sum.cas_misses += one.cas_misses;
            sum.flush_ns += one.flush_ns;
        }
        sum
    }

    /// Refuses further commits, hardens all that were accepted, stops the threads, and says where
    /// the generation ends. Closing again gives the same answer. On return, of an error too, nothing
    /// is being written any more, so the log may be opened again.
    ///
    /// # Errors
    /// The error that poisoned the log; the threads are stopped all the same.
    pub fn close(&self) -> Result<Seal, LogError> {
        let result = self.streams.close();
        self.stop_threads();
        result?;
        // Nothing need be pending: a panic can lose an LSN, and a seal would count it.
        self.streams.shared.poison.check()?;
        let mut seal = Seal {
            last_sequences: Vec::with_capacity(self.streams()),
            last_lsn: match self.streams.shared.horizon.sequencer.draws() {
                true => self.last_drawn(),
                false => Lsn(0),
            },
            // All of them: whatever is in the streams was hardened.
            durable_epoch: (self.streams.shared.epochs.as_ref())
                .map_or(Epoch(0), |epochs| epochs.source.current()),
            max_stamp: Stamp(0),
        };
        for stream in &self.streams.list {
            let (sequence, max_stamp) = stream.end();
            seal.last_sequences.push(sequence);
            seal.max_stamp = seal.max_stamp.max(max_stamp);
        }
        Ok(seal)
    }

    fn stop_threads(&self) {
        self.streams.shared.flusher.stop();
        self.streams.shared.preparer.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A waker that the flusher calls may hold the last handle of the database.
            if thread.thread().id() != std::thread::current().id() {
                // A thread that panicked has poisoned the log, which says so by itself.
                drop(thread.join());
            }
        }
    }
}

impl<H: Held> Drop for Log<H> {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl<H: Held> std::fmt::Debug for Log<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("generation", &self.streams.shared.generation)
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}
