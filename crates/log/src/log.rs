//! A log of one generation: its streams, its horizon, its threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use namiki_platform::disk::{AlignedBuf, Disk};
use namiki_platform::sync::{AtomicU64, Mutex, Ordering};
use namiki_platform::threads;
use namiki_platform::{Epoch, Lsn, ProcessToken, Stamp, WorkerId};

use crate::config::{GroupResource, LogConfig, Prepare};
use crate::error::LogError;
use crate::generation::GenerationEnd;
use crate::generation::layout_config::Placement;
use crate::horizon::async_waiters::{AckWaiter, AckWaiters};
use crate::horizon::epoch_horizon::EpochHorizon;
use crate::horizon::lsn_horizon::Horizon;
use crate::log_target::{
    FileLengths, LogFileMaker, LogFileTarget, LogTarget, RegionOptions, RegionTarget, open_shared,
    remove_unnumbered,
};
use crate::shared_state::{Notifier, Poison, Requests, Shared};
use crate::stream::{GROUP_SIZES, Stream, Ticket};
use crate::streams::Streams;
use crate::streams::background_threads;

/// A write-ahead log of parallel streams, writing one generation.
///
/// Dropping it stops its threads, waits for writes that are under way and begins none: what was not
/// hardened is lost, as in a crash.
/// [`Log::close`] is the orderly end.
pub struct Log<H: GroupResource> {
    pub(crate) streams: Arc<Streams<H>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Sums over all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Frames written.
    pub flushes: u64,
    /// The asynchronous ones among them, during which their worker continued.
    pub submitted: u64,
    /// Bytes of frames written, padding included.
    pub frame_bytes: u64,
    /// Bytes of zeros written to make log files ready for frames. A log file that is written again
    /// needs none.
    pub zero_bytes: u64,
    /// Commits hardened.
    pub commits: u64,
    /// Attempts to draw an LSN that another thread won; compare-and-swap only.
    pub cas_misses: u64,
    /// Sum over all frames of the time from the beginning of the write until its end was seen. In
    /// groups by count, one in 16 short flushes is timed, and the others count as long as that one:
    /// the sum is too small if some of those were long, as where a log file ends.
    pub flush_ns: u64,
    /// Number of frames without commits, with one, with 2 or 3, with 4 to 7, and so on; the last
    /// entry counts all frames with more.
    pub group_sizes: [u64; GROUP_SIZES],
}

/// The log's threads, started before it is known what they share: what the log can do depends on
/// which of them the system allows. Without the one that flushes, whatever waits for a commit
/// flushes it, a task like a thread, and a poll flushes what is overdue; without the one that makes
/// log files ready, the commit that needs one does.
struct Threads<H: GroupResource> {
    flusher: Option<Waiting<H>>,
    preparer: Option<Waiting<H>>,
}

/// A thread that waits for the streams, and ends if there will be none.
struct Waiting<H: GroupResource> {
    streams: Sender<Arc<Streams<H>>>,
    handle: JoinHandle<()>,
}

impl<H: GroupResource> Threads<H> {
    fn start(config: &LogConfig) -> Self {
        let group_wait_max = config.group_wait_max;
        let wants_flusher = group_wait_max != Duration::MAX && !cfg!(loom);
        let has_log_files = matches!(config.placement, Placement::Files { .. });
        let wants_preparer = has_log_files && config.prepare == Prepare::Background;
        let flush = move |streams: Arc<Streams<H>>| {
            background_threads::flush_late(&streams, group_wait_max);
        };
        let prepare = |streams: Arc<Streams<H>>| background_threads::prepare_ahead(&streams);
        Self {
            flusher: (wants_flusher.then(|| Waiting::start("namiki-log-flush", flush))).flatten(),
            preparer: (wants_preparer.then(|| Waiting::start("namiki-log-files", prepare)))
                .flatten(),
        }
    }

    fn give(self, streams: &Arc<Streams<H>>) -> Vec<JoinHandle<()>> {
        let waiting = [self.flusher, self.preparer].into_iter().flatten();
        let given = waiting.map(|thread| {
            // It receives, or it has panicked, which joining it ignores.
            let _ = thread.streams.send(Arc::clone(streams));
            thread.handle
        });
        given.collect()
    }
}

impl<H: GroupResource> Waiting<H> {
    /// `None` if the system allows no further thread.
    fn start(name: &str, run: impl FnOnce(Arc<Streams<H>>) + Send + 'static) -> Option<Self> {
        let (streams, given) = channel();
        let work = move || {
            if let Ok(streams) = given.recv() {
                run(streams);
            }
        };
        let handle = threads::start(name, work).ok()?;
        Some(Self { streams, handle })
    }
}

impl<H: GroupResource> Log<H> {
    /// Creates the log of a new generation in `dir`, the database's `wal` directory.
    ///
    /// Log files are made when a stream is first used, or by [`Log::prepare_log_files`]; a shared
    /// device is created here if it does not exist. On return every stream has durably what a
    /// reader of the generation must find: its directory, or the head of its region. Where a crash
    /// came before either, the same generation can be created again.
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
        let threads = Threads::start(&config);
        // The threads of a model are its own.
        let has_flusher =
            threads.flusher.is_some() || cfg!(loom) && config.group_wait_max != Duration::MAX;
        let shared = Arc::new(Shared {
            process: ProcessToken::current(),
            generation: config.generation,
            horizon: Horizon::new(config.sequencer, config.first_lsn, count),
            epochs: (config.epochs.clone()).map(|source| EpochHorizon::new(source, count)),
            poison: Poison::new(),
            prepare: match threads.preparer {
                Some(_) => Prepare::Background,
                // The commit that needs a log file makes it.
                None => Prepare::Inline,
            },
            async_flush_min_commits: config.async_flush_threshold(),
            has_flusher,
            room: std::sync::OnceLock::new(),
            polls_flush: !has_flusher && config.group_wait_max != Duration::MAX,
            demanded: AtomicU64::new(0),
            flusher: CachePadded::new(Notifier::new()),
            preparer: CachePadded::new(Requests::new()),
        });
        let device = match &config.placement {
            Placement::Files { .. } => {
                // By itself, because it may be there without being durable.
                disk.create_dir_all(dir)
                    .map_err(|source| LogError::device("opening", dir, source))?;
                None
            }
            Placement::Shared { path, region_bytes } => {
                Some(open_shared(&*disk, path, count, *region_bytes)?)
            }
        };
        remove_unnumbered(&*disk, dir, config.stream_count() as u16);
        let mut list = Vec::with_capacity(count);
        let mut buffers = AlignedBuf::zeroed_together(2 * count, config.buffer_len()).into_iter();
        let frame_bytes_max = config.frame_bytes_max();
        for index in 0..count {
            // `stream_count` comes from a u16.
            let worker = WorkerId(index as u16);
            let (target, maker) = match &config.placement {
                Placement::Files { log_file_bytes } => {
                    let maker = LogFileMaker::new(
                        Arc::clone(&disk),
                        dir,
                        *log_file_bytes,
                        config.identity,
                        config.generation,
                        worker,
                        frame_bytes_max,
                    );
                    maker.open_dir()?;
                    let lengths = FileLengths {
                        first: config.first_file_bytes.unwrap_or(*log_file_bytes),
                        longest: *log_file_bytes,
                        may_differ: config.first_file_bytes.is_some(),
                    };
                    let target = LogFileTarget::new(config.identity, config.retain, lengths);
                    (LogTarget::Files(target), Some(maker))
                }
                Placement::Shared { path, region_bytes } => {
                    let Some(file) = &device else { continue };
                    let target = RegionTarget::open(
                        Arc::clone(file),
                        Arc::from(path.as_path()),
                        &RegionOptions {
                            region_bytes: *region_bytes,
                            identity: config.identity,
                            generation: config.generation,
                            worker,
                            frame_bytes_max,
                            retain: config.retain,
                            kept: config.kept.as_deref(),
                        },
                    )?;
                    (LogTarget::Region(target), None)
                }
            };
            let two = std::array::from_fn(|_| buffers.next().expect("there are two for each"));
            let stream = Stream::new(Arc::clone(&shared), worker, &config, two, target, maker);
            list.push(CachePadded::new(stream));
        }
        let streams = Arc::new(Streams {
            shared,
            list: list.into(),
        });
        let threads = threads.give(&streams);
        Ok(Arc::new(Self {
            streams,
            threads: Mutex::new(threads),
        }))
    }

    /// Makes log files until every stream has `count` ready in addition to the one it writes,
    /// rather than each when half of the one before it is used: for callers that know how much they
    /// will write, and do not want to make files while they do. They come on top of those that
    /// [`crate::Retain`] keeps, and each holds a file open. No effect on a shared device.
    ///
    /// To be called when the generation is announced to its later readers: with a file there is,
    /// [`Log::create`] cannot start it again.
    ///
    /// # Errors
    /// [`LogError::DiskFull`], the disk's own, [`LogError::Closed`], or the error that poisoned the
    /// log. Log files that were made before that stay ready.
    pub fn prepare_log_files(&self, count: usize) -> Result<(), LogError> {
        for stream in &self.streams.list {
            stream.prepare_log_files(count)?;
        }
        Ok(())
    }

    /// Number of streams; 1 under `Layout::Single`.
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

    /// Whether nothing was ever appended to any stream, by whatever has ended before this call. A
    /// load for each stream.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.streams.list.iter().all(|stream| stream.is_untouched())
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
    /// The error that poisoned the log; [`LogError::NeverDrawn`]; [`LogError::Forked`].
    pub fn wait_covered(&self, lsn: Lsn) -> Result<(), LogError> {
        let shared = &*self.streams.shared;
        if shared.horizon.sequencer.draws() && shared.horizon.covers(lsn) {
            return Ok(());
        }
        shared.check_process()?;
        self.streams.cover(lsn)
    }

    /// As [`Stream::wait_hardened`] for a task, which the waker wakes when it should ask again. The
    /// flusher leads the flush, as the thread that waits would; if there is no flusher
    /// (`group_wait_max` is `Duration::MAX`, or no thread was allowed), this waits like a thread.
    ///
    /// # Errors
    /// As [`Stream::wait_hardened`].
    pub fn poll_hardened(
        &self,
        ticket: Ticket,
        waker: &Waker,
        ack_waiter: &mut AckWaiter,
    ) -> Poll<Result<(), LogError>> {
        let polled = self.poll_flushed(ticket, waker, ack_waiter)?;
        if polled.is_pending() {
            self.stream(ticket.worker).demand(ticket.number, 0);
        }
        polled.map(Ok)
    }

    /// [`Log::poll_hardened`] for a task, if another thread flushes its commit
    /// ([`Stream::flush`](crate::Stream::flush)): the flusher is not called for it. It still flushes
    /// a group that has been pending for `group_wait_max`. If there is no flusher, this waits like a
    /// thread, as `poll_hardened` does: nothing else would wake the task if the other thread failed.
    ///
    /// # Errors
    /// As [`Stream::wait_hardened`].
    pub fn poll_flushed(
        &self,
        ticket: Ticket,
        waker: &Waker,
        ack_waiter: &mut AckWaiter,
    ) -> Poll<Result<(), LogError>> {
        let shared = &*self.streams.shared;
        let stream = self.stream(ticket.worker);
        if !shared.has_flusher {
            return Poll::Ready(stream.wait_hardened(ticket));
        }
        stream.check_ticket(ticket)?;
        if stream.is_hardened(ticket) {
            return Poll::Ready(Ok(()));
        }
        shared.check_process()?;
        let ended = || {
            if stream.is_hardened(ticket) {
                Some(Ok(()))
            } else {
                shared.poison.get().map(Err)
            }
        };
        ended()
            .or_else(|| {
                // It may have been written since. `ended` reports a failure.
                drop(stream.poll());
                self.enter(usize::from(ticket.worker.0), waker, ack_waiter);
                ended()
            })
            .map_or(Poll::Pending, Poll::Ready)
    }

    /// As [`Log::wait_covered`] for a task: see [`Log::poll_hardened`]. `ticket` is the commit that
    /// waits, if it is one, and its group is waited for first. The task is woken when a stream that
    /// lags has hardened something, and when the flusher has flushed all that do.
    ///
    /// # Errors
    /// As [`Log::wait_covered`]; [`LogError::ForeignTicket`].
    pub fn poll_covered(
        &self,
        ticket: Option<Ticket>,
        lsn: Lsn,
        waker: &Waker,
        ack_waiter: &mut AckWaiter,
    ) -> Poll<Result<(), LogError>> {
        if !self.streams.shared.has_flusher {
            let hardened = ticket.map_or(Ok(()), |ticket| {
                self.stream(ticket.worker).wait_hardened(ticket)
            });
            return Poll::Ready(hardened.and_then(|()| self.wait_covered(lsn)));
        }
        if let Some(ticket) = ticket {
            self.stream(ticket.worker).check_ticket(ticket)?;
        }
        let horizon = &self.streams.shared.horizon;
        if horizon.sequencer.draws() && horizon.covers(lsn) {
            return Poll::Ready(Ok(()));
        }
        self.streams.shared.check_process()?;
        let lags = |index: &usize| horizon.lags(*index, lsn);
        loop {
            if let Some(ended) = self.streams.covered(lsn) {
                return Poll::Ready(ended);
            }
            let Some(index) = (0..self.streams.list.len()).find(lags) else {
                continue;
            };
            drop(self.streams.list[index].poll());
            self.enter(index, waker, ack_waiter);
            if let Some(ended) = self.streams.covered(lsn) {
                return Poll::Ready(ended);
            }
            if lags(&index) {
                self.demand(ticket, lsn.0);
                return Poll::Pending;
            }
        }
    }

    /// Through this epoch every commit is hardened in all streams, as far as is known. It never
    /// goes back. [`Epoch`] 0 where commits are not released by epochs.
    #[must_use]
    pub fn hardened_epoch(&self) -> Epoch {
        let epochs = self.streams.shared.epochs.as_ref();
        epochs.map_or(Epoch(0), EpochHorizon::hardened)
    }

    /// [`Log::hardened_epoch`] after a look at the streams; if nothing is pending in any of them,
    /// the current epoch is closed first. So a single client that commits and waits finds
    /// everything hardened.
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

    /// Through this epoch every commit may be acknowledged: all of them are hardened, and what is
    /// on the disk says so, or nothing in them needs that. It never goes back. [`Epoch`] 0 where
    /// commits are not released by epochs.
    #[must_use]
    pub fn certified_epoch(&self) -> Epoch {
        let epochs = self.streams.shared.epochs.as_ref();
        epochs.map_or(Epoch(0), EpochHorizon::certified)
    }

    /// Whether commits of `epoch`, and transactions that have read them, may be acknowledged. One
    /// load, if so.
    #[must_use]
    pub fn is_certified(&self, epoch: Epoch) -> bool {
        let epochs = self.streams.shared.epochs.as_ref();
        epochs.is_some_and(|epochs| epochs.certifies(epoch))
    }

    /// Returns when `epoch` is certified; an epoch that is still to come counts as the current one.
    /// `ticket` is the commit that waits, if it is one, and its group is waited for first. Then
    /// streams that lag are flushed, and if what is on the disk does not certify the epoch, and
    /// something was committed that needs it, a frame that does is written.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Closed`]; [`LogError::RegionFull`] and
    /// [`LogError::DiskFull`] if there is no room for that frame: the outcome is unknown then.
    /// [`LogError::Forked`]; [`LogError::ForeignTicket`].
    pub fn wait_certified(&self, ticket: Option<Ticket>, epoch: Epoch) -> Result<(), LogError> {
        let Some(epochs) = &self.streams.shared.epochs else {
            return self.streams.shared.poison.check();
        };
        let epoch = epoch.min(epochs.source.current());
        if epochs.certifies(epoch) {
            return Ok(());
        }
        self.streams.shared.check_process()?;
        let mut home = 0;
        if let Some(ticket) = ticket {
            self.stream(ticket.worker).wait_hardened(ticket)?;
            home = usize::from(ticket.worker.0);
        }
        self.streams.certify(epochs, epoch, home)
    }

    /// As [`Log::wait_certified`] for a task: see [`Log::poll_hardened`].
    ///
    /// # Errors
    /// As [`Log::wait_certified`].
    pub fn poll_certified(
        &self,
        ticket: Option<Ticket>,
        epoch: Epoch,
        waker: &Waker,
        ack_waiter: &mut AckWaiter,
    ) -> Poll<Result<(), LogError>> {
        let shared = &*self.streams.shared;
        let Some(epochs) = &shared.epochs else {
            return Poll::Ready(shared.poison.check());
        };
        if !shared.has_flusher {
            return Poll::Ready(self.wait_certified(ticket, epoch));
        }
        if let Some(ticket) = ticket {
            self.stream(ticket.worker).check_ticket(ticket)?;
        }
        let epoch = epoch.min(epochs.source.current());
        if epochs.certifies(epoch) {
            return Poll::Ready(Ok(()));
        }
        shared.check_process()?;
        let since = *ack_waiter.refusals.get_or_insert_with(|| epochs.refusals());
        let ended = || {
            if epochs.certifies(epoch) {
                return Some(Ok(()));
            }
            let refused = || epochs.refusal(epoch, since);
            shared.poison.get().or_else(refused).map(Err)
        };
        ended()
            .or_else(|| {
                self.poll();
                self.enter(self.streams.list.len(), waker, ack_waiter);
                ended()
            })
            .map_or_else(
                || {
                    self.demand(ticket, epoch.0);
                    Poll::Pending
                },
                Poll::Ready,
            )
    }

    /// A task that is in the list of those to be woken wants everything acknowledged through this
    /// LSN or epoch, once its commit is hardened, if it is one.
    fn demand(&self, ticket: Option<Ticket>, through: u64) {
        match ticket {
            Some(ticket) => self.stream(ticket.worker).demand(ticket.number, through),
            None => {
                let shared = &*self.streams.shared;
                shared.demanded.fetch_max(through, Ordering::Release);
                shared.call_flusher();
            }
        }
    }

    /// The task waits no longer.
    pub fn leave(&self, ack_waiter: &mut AckWaiter) {
        if !self.streams.shared.process.is_current() {
            return;
        }
        if let Some((index, key)) = ack_waiter.entry.take() {
            self.ack_waiters(index).leave(key);
        }
    }

    /// The waiting tasks of a stream, or behind the last one, of an epoch.
    fn ack_waiters(&self, index: usize) -> &AckWaiters {
        match (self.streams.list.get(index), &self.streams.shared.epochs) {
            (None, Some(epochs)) => &epochs.ack_waiters,
            _ => &self.streams.list[index].ack_waiters,
        }
    }

    /// Enters a task in the list of one stream, or of the waiters for an epoch, and in no other.
    fn enter(&self, index: usize, waker: &Waker, ack_waiter: &mut AckWaiter) {
        let old = match ack_waiter.entry {
            Some((at, key)) if at == index => Some(key),
            _ => {
                self.leave(ack_waiter);
                None
            }
        };
        let key = self.ack_waiters(index).enter(waker, old);
        ack_waiter.entry = Some((index, key));
    }

    /// [`Stream::poll`] for all streams: completes their asynchronous flushes that have been
    /// written, and does what a flusher would that no thread was allowed for. What went wrong,
    /// waiters learn.
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

    /// [`Log::poll`] for a caller that wants to know whether `epoch` is certified. From now on the
    /// flusher sees to it, if there is one. If no thread was allowed for it, this does, once every
    /// group of the epoch is hardened.
    pub fn poll_epoch(&self, epoch: Epoch) {
        let shared = &*self.streams.shared;
        let Some(epochs) = &shared.epochs else {
            return self.poll();
        };
        if shared.check_process().is_err() {
            return;
        }
        let epoch = epoch.min(epochs.source.current());
        if shared.has_flusher && epochs.want(epoch) {
            shared.wake_flusher();
        }
        self.poll();
        let lags = |stream| epochs.lags(stream, epoch);
        if shared.polls_flush && !epochs.certifies(epoch) && !(0..self.streams()).any(lags) {
            drop(self.streams.certify(epochs, epoch, 0));
        }
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

    /// Whether a thread of the log flushes what is overdue.
    #[must_use]
    pub fn has_flusher(&self) -> bool {
        self.streams.shared.has_flusher
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
            sum.submitted += one.submitted;
            sum.frame_bytes += one.frame_bytes;
            sum.zero_bytes += one.zero_bytes;
            sum.commits += one.commits;
            sum.cas_misses += one.cas_misses;
            sum.flush_ns += one.flush_ns;
            for (sum, frames) in sum.group_sizes.iter_mut().zip(one.group_sizes) {
                *sum += frames;
            }
        }
        sum
    }

    /// Refuses further commits, hardens all that were accepted, stops the threads, and says where
    /// the generation ends. Closing again gives the same answer. On return, of an error too,
    /// nothing is being written any more, so the log may be opened again.
    ///
    /// # Errors
    /// The error that poisoned the log; the threads are stopped all the same. [`LogError::Forked`].
    pub fn close(&self) -> Result<GenerationEnd, LogError> {
        self.streams.shared.check_process()?;
        let result = self.streams.close();
        self.stop_threads();
        result?;
        // Nothing need be pending: a panic can lose an LSN, and a seal would count it.
        self.streams.shared.poison.check()?;
        let mut seal = GenerationEnd {
            last_sequences: Vec::with_capacity(self.streams()),
            last_lsn: if self.streams.shared.horizon.sequencer.draws() {
                self.last_drawn()
            } else {
                Lsn(0)
            },
            // All epochs: every record in the streams was hardened.
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

    /// The seal of the generation as of some moment during this call, for a copy that is taken
    /// while the log is written. Every commit that was hardened before the call is in it. Under
    /// release by epochs and by LSN, later ones may be in part: what counts of those frames,
    /// [`GenerationInfo::last_stamp`] says.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Forked`].
    ///
    /// [`GenerationInfo::last_stamp`]: crate::GenerationInfo::last_stamp
    pub fn hardened_end(&self) -> Result<GenerationEnd, LogError> {
        let shared = &*self.streams.shared;
        shared.check_process()?;
        // Before any stream is looked at: what is below it is in the frames that are counted then.
        let last_lsn = if shared.horizon.sequencer.draws() {
            Lsn(self.horizon().0 - 1)
        } else {
            Lsn(0)
        };
        let mut end = GenerationEnd {
            last_sequences: Vec::with_capacity(self.streams()),
            last_lsn,
            durable_epoch: match &shared.epochs {
                Some(_) => self.certified_epoch(),
                None => Epoch(0),
            },
            max_stamp: Stamp(0),
        };
        for stream in &self.streams.list {
            let (sequence, max_stamp) = stream.hardened_end();
            end.last_sequences.push(sequence);
            end.max_stamp = end.max_stamp.max(max_stamp);
        }
        shared.poison.check()?;
        Ok(end)
    }

    /// Waits until all frames are hardened that are begun when their stream is looked at. Returns
    /// how many there are, of all streams.
    ///
    /// # Errors
    /// The error that poisoned the log; [`LogError::Forked`].
    pub fn harden_begun(&self) -> Result<u64, LogError> {
        let streams = self.streams.list.iter();
        let begun = streams.map(|stream| stream.harden_begun());
        begun.sum()
    }

    /// The work of the flusher's thread, for a model.
    #[cfg(all(test, loom))]
    pub(crate) fn flush_late(&self, group_wait_max: Duration) {
        background_threads::flush_late(&self.streams, group_wait_max);
    }

    /// Stops the flusher of a model.
    #[cfg(all(test, loom))]
    pub(crate) fn stop_flusher(&self) {
        self.streams.shared.flusher.stop();
    }

    /// In a forked child: leaves all as it is. The threads are not there to be joined, a write
    /// under way is the parent's to wait for, and a lock may be held by a thread that is not there.
    fn abandon(&mut self) {
        std::mem::forget(Arc::clone(&self.streams));
        std::mem::forget(std::mem::replace(&mut self.threads, Mutex::new(Vec::new())));
    }

    fn stop_threads(&self) {
        self.streams.shared.flusher.stop();
        self.streams.shared.preparer.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A waker that the flusher calls may hold the last handle of the database.
            if thread.thread().id() != std::thread::current().id() {
                // A thread that panicked has poisoned the log, which reports it.
                drop(thread.join());
            }
        }
    }
}

impl<H: GroupResource> Drop for Log<H> {
    fn drop(&mut self) {
        if self.streams.shared.process.is_current() {
            self.stop_threads();
        } else {
            self.abandon();
        }
    }
}

impl<H: GroupResource> std::fmt::Debug for Log<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("generation", &self.streams.shared.generation)
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}
