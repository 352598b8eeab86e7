//! One run: load, warm-up, timed part, settling, and the comparison with the witness.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use namiki_client::{AsyncClient, ClientOptions, Security};
use namiki_platform::machine::Machine;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use super::clients::{Client, Shared};
use super::cpu_use::CpuUse;
use super::fault_context::{FaultContext, FaultEvent, FaultReport};
use super::faults::{Fault, Kind};
use super::footprint::{DirectoryRatio, Footprint};
use super::gaps::Gaps;
use super::history::Recorder;
use super::image_times::{CommandCounts, ImageTimes};
use super::load;
use super::local_cluster::LocalCluster;
use super::register_client::{RegisterClient, read_rows};
use super::result_row::{ClusterRow, FailoverMs, RoundTripMs};
use super::shape::Shape;
use super::small_disk::SmallDisk;
use super::witness::{Findings, Witness};
use super::workload::{Plan, PlanSizes, Workload};
use crate::error::BenchError;
use crate::interrupt;
use crate::latency::Latencies;
use crate::run_stages::quotient;

/// Interval between checks of the clock, and for Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(20);
/// Interval between samples of processor time.
const CPU_INTERVAL: Duration = Duration::from_millis(200);
/// Interval between samples of the disk and of memory.
const FOOTPRINT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit for the nodes to apply the same entries.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);
/// A failover is long if it takes more than two election timeouts and this slack.
const SLACK: Duration = Duration::from_millis(100);
/// Time limit for a client's call, which elections and restarts stay below.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The parameters of a run.
pub(super) struct Run<'a> {
    pub(super) shape: Shape,
    pub(super) workload: Workload,
    pub(super) sizes: PlanSizes,
    /// Fraction of the operations of the workload `register` that only read.
    pub(super) reads: f64,
    /// The file for the history of the operations.
    pub(super) history: Option<&'a Path>,
    pub(super) fault: Fault,
    /// Commands per second of all clients; `None`: as fast as they are answered.
    pub(super) rate: Option<f64>,
    pub(super) warmup: Duration,
    pub(super) length: Duration,
    pub(super) floor_ms: f64,
    /// The required leader at the start of the clients, if it matters.
    pub(super) leader: Option<u64>,
    pub(super) machine: &'a Machine,
    pub(super) round: u32,
}

/// A running client.
type ClientFuture = Pin<Box<dyn Future<Output = Result<(), BenchError>>>>;

impl<'a> Run<'a> {
    /// Executes the run in this folder.
    pub(super) fn run(&self, dir: &Path) -> Result<ClusterRow<'a>, BenchError> {
        // Created before the cluster, which is dropped first.
        let small_disk = (self.fault.kind == Kind::FullDisk)
            .then(|| SmallDisk::mount(&dir.join(format!("node-{}", self.shape.nodes))))
            .transpose()?;
        let small_disk = small_disk.as_ref();
        let cluster = LocalCluster::start(dir, &self.shape)?;
        if let Some(leader) = self.leader {
            cluster.let_lead(leader)?;
        }
        let is_over = AtomicBool::new(false);
        let images = ImageTimes::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(BenchError::system("start the clients"))?;
        let local = LocalSet::new();
        std::thread::scope(|scope| {
            // Faults start with the clients, not with the load.
            let (begin, begins) = std::sync::mpsc::channel::<()>();
            let (cluster, is_over) = (&cluster, &is_over);
            let faults = scope.spawn(move || match begins.recv() {
                Ok(()) => {
                    let context = FaultContext {
                        cluster,
                        small_disk,
                        is_over,
                    };
                    self.fault.run(context, self.sizes.seed)
                }
                Err(_) => Ok(FaultReport::default()),
            });
            let images = &images;
            scope.spawn(move || images.watch(cluster, is_over));
            let recorder = Rc::new(RefCell::new(Recorder::new(Instant::now())));
            let driven = self.drive(cluster, (begin, is_over), Rc::clone(&recorder));
            let driven = local.block_on(&runtime, driven);
            is_over.store(true, Ordering::Relaxed);
            let faults = faults.join().map_err(|_| BenchError::Panicked)?;
            let known_faults = faults.as_ref().map_or(&[][..], |report| &report.events);
            // The cluster is about to be stopped, so its state is printed now to explain the
            // failure.
            let driven = driven.inspect_err(|_| cluster.describe());
            let verified = driven.and_then(|(shared, use_of)| {
                let verified = local.block_on(&runtime, self.verify(cluster, shared))?;
                Ok((verified, use_of, Self::replicas_equal(cluster)))
            });
            let is_recorded = self.workload == Workload::Register;
            if is_recorded && (verified.is_err() || faults.is_err()) {
                self.keep_unfinished(&recorder.borrow(), known_faults);
            }
            let ((shared, findings, conserved), (cpu, footprint), replicas_equal) = verified?;
            let faults = faults?;
            let history = is_recorded
                .then(|| self.check_history(&recorder.borrow(), &faults.events))
                .transpose()?;
            let row = self.row(
                &shared,
                &cpu,
                &faults.events,
                &findings,
                conserved,
                replicas_equal,
            );
            let timed = shared.timed_from.zip(shared.timed_to);
            let during_images = timed.and_then(|timed| images.during(&shared.counts, timed));
            // An existing cluster may use TLS without the flag.
            let tls = matches!(cluster.options.security, Security::Tls(_));
            Ok(ClusterRow {
                tls,
                history,
                footprint_mib: footprint.mib(),
                directory_ratio: footprint.directory_ratio(self.shape.max_log_mib << 20),
                during_images,
                rolling_rounds: (self.fault.kind == Kind::RollingRestart).then_some(faults.rounds),
                absences: (self.fault.kind == Kind::Away).then_some(faults.absences),
                frames_damaged: (self.fault.kind == Kind::DamageEverywhere)
                    .then_some(faults.frames_damaged),
                waits_for_room: (self.fault.kind == Kind::FullDisk)
                    .then_some(faults.waits_for_room),
                ..row
            })
        })
    }

    fn options(&self, cluster: &LocalCluster) -> ClientOptions {
        ClientOptions {
            window: self.sizes.pipeline as usize,
            ..cluster.within(CALL_TIMEOUT)
        }
    }

    /// Loads the data, and runs the clients. Faults begin with a message, and end when the flag is
    /// set.
    async fn drive(
        &self,
        cluster: &LocalCluster,
        (begin, is_over): (std::sync::mpsc::Sender<()>, &AtomicBool),
        recorder: Rc<RefCell<Recorder>>,
    ) -> Result<(RefCell<Shared>, (CpuUse, Footprint)), BenchError> {
        let mut client = AsyncClient::connect(cluster.addresses(), self.options(cluster)).await?;
        let name = match self.workload {
            Workload::Transfer | Workload::Payment => "bench-accounts",
            Workload::Single | Workload::Rows => "bench-rows",
            Workload::Register => "bench-registers",
        };
        let table = client.create_table(name, true).await?;
        let plan = Plan::new(self.workload, table, &self.sizes);
        let mut loading = client.open_session().await?;
        load::load(&mut loading, &plan).await?;
        loading.close().await?;
        let shared = Rc::new(RefCell::new(Shared {
            witness: Witness::new(&plan),
            pace: self.pace(&plan),
            plan,
            gaps: Gaps::new(Instant::now()),
            counts: CommandCounts::new(Instant::now()),
            latencies: Latencies::new(),
            latency_sum: Duration::ZERO,
            groups_timed: 0,
            commands_timed: 0,
            timed_from: None,
            timed_to: None,
            is_over: false,
            recorder,
        }));
        let mut clients: Vec<ClientFuture> = Vec::new();
        for number in 0..self.sizes.clients {
            let session = client.open_session().await?;
            let (shared, seed) = (Rc::clone(&shared), self.sizes.seed);
            if self.workload == Workload::Register {
                let client = RegisterClient {
                    number,
                    client: AsyncClient::connect(cluster.addresses(), self.options(cluster))
                        .await?,
                    session,
                    shared,
                    seed,
                    reads: self.reads,
                };
                clients.push(Box::pin(client.run()));
            } else {
                let client = Client {
                    number,
                    session,
                    shared,
                    seed,
                };
                clients.push(Box::pin(client.run()));
            }
        }
        let _ = begin.send(());
        let clients: Vec<_> = clients.into_iter().map(spawn_local).collect();
        let cpu = self.time(cluster, &shared, &clients).await;
        // Clients then wait for their last commands: on a slow disk, for longer than nodes would live.
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.map_err(|_| BenchError::Panicked)??;
        }
        Ok((Rc::into_inner(shared).ok_or(BenchError::Panicked)?, cpu))
    }

    /// The interval between two groups of a client.
    fn pace(&self, plan: &Plan) -> Option<Duration> {
        let rate = self.rate?;
        // A group of `register` has between one command and the maximum; the average counts.
        let commands = match plan.workload {
            Workload::Register => f64::from(plan.batch + 1) / 2.0,
            _ => f64::from(plan.batch),
        };
        let groups_per_s = rate / commands / f64::from(self.sizes.clients);
        Some(Duration::from_secs_f64(1.0 / groups_per_s))
    }

    /// Waits for the warm-up and the timed part to end, or for a client to fail.
    async fn time(
        &self,
        cluster: &LocalCluster,
        shared: &RefCell<Shared>,
        clients: &[JoinHandle<Result<(), BenchError>>],
    ) -> (CpuUse, Footprint) {
        // Clients end when the run is over, and not before.
        let goes_on = || !interrupt::asked() && !clients.iter().any(JoinHandle::is_finished);
        let said = Cell::new(Instant::now());
        let wait = async |until: Instant| {
            while Instant::now() < until && goes_on() {
                sleep(INTERVAL).await;
                if said.get().elapsed() >= PROGRESS_INTERVAL {
                    said.set(Instant::now());
                    eprintln!("{} commands acknowledged", shared.borrow().witness.done);
                }
            }
        };
        // Asking takes a while, so it happens before the clock starts.
        let leader = cluster.leader_process();
        wait(Instant::now() + self.warmup).await;
        let begin = Instant::now();
        let mut cpu = CpuUse::begin(cluster, leader);
        shared.borrow_mut().timed_from = Some(begin);
        let end = begin + self.length;
        let (mut footprint, mut looked) = (Footprint::default(), begin);
        while Instant::now() < end && goes_on() {
            wait(end.min(Instant::now() + CPU_INTERVAL)).await;
            cpu.look(cluster, begin.elapsed());
            if looked.elapsed() >= FOOTPRINT_INTERVAL {
                looked = Instant::now();
                let row_bytes = shared.borrow().witness.bytes_present();
                footprint.look(cluster, row_bytes);
            }
        }
        let mut shared = shared.borrow_mut();
        shared.timed_to = Some(Instant::now());
        shared.is_over = true;
        (cpu, footprint)
    }

    async fn verify(
        &self,
        cluster: &LocalCluster,
        shared: RefCell<Shared>,
    ) -> Result<(Shared, Findings, bool), BenchError> {
        let mut client = AsyncClient::connect(cluster.addresses(), self.options(cluster)).await?;
        if self.workload == Workload::Register {
            // The values written last are observed, too.
            let rows = (0..self.sizes.registers).collect();
            read_rows(&mut client, &shared, self.sizes.clients, rows).await?;
        }
        let shared = shared.into_inner();
        let findings = load::verify(&mut client, &shared.plan, &shared.witness).await?;
        let conserved = shared.witness.is_conserved(&findings);
        Ok((shared, findings, conserved))
    }

    /// Whether all nodes hold the same rows and sessions after the same entry.
    fn replicas_equal(cluster: &LocalCluster) -> bool {
        let begin = Instant::now();
        loop {
            // A node may be starting, or read what it lacks.
            match cluster.states_at_one_entry() {
                Ok(states) => return states.are_equal(),
                Err(error) if begin.elapsed() > SETTLE_TIMEOUT => {
                    eprintln!("the nodes were not compared: {error}");
                    return false;
                }
                Err(_) => std::thread::sleep(INTERVAL),
            }
        }
    }

    /// Prints the long failovers with their times, so that they can be found in the nodes' logs.
    fn tell_long(&self, breaks: &[&FaultEvent], gaps: &[Option<Duration>]) {
        let long = Duration::from_millis(2 * self.shape.election_timeout_ms) + SLACK;
        for (fault, gap) in breaks.iter().zip(gaps) {
            if let Some(gap) = gap.filter(|gap| *gap > long) {
                let at = SystemTime::now().checked_sub(fault.at.elapsed());
                let at = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                let (ms, at) = (gap.as_millis(), at.unwrap_or_default().as_secs_f64());
                let (what, nodes) = (fault.what, &fault.nodes);
                eprintln!(
                    "nothing acknowledged for {ms} ms after {what} of {nodes:?} at {at:.3} s since 1970"
                );
            }
        }
    }

    fn row(
        &self,
        shared: &Shared,
        cpu: &CpuUse,
        faults: &[FaultEvent],
        findings: &Findings,
        conserved: bool,
        replicas_equal: bool,
    ) -> ClusterRow<'a> {
        let seconds = shared.timed_from.zip(shared.timed_to);
        let seconds = seconds.map_or(0.0, |(from, to)| (to - from).as_secs_f64());
        let mean = shared.latency_sum.as_secs_f64() * 1e3;
        let mean = quotient(mean, shared.groups_timed as f64);
        let rtt_ms = shared.latencies.summary().zip(mean);
        let rtt_ms = rtt_ms.map(|(us, mean)| RoundTripMs {
            mean,
            p50: us.p50 / 1e3,
            p99: us.p99 / 1e3,
            max: us.max / 1e3,
        });
        let all_breaks = faults.iter().filter(|fault| fault.breaks).count();
        let breaks: Vec<&FaultEvent> = faults.iter().filter(|fault| fault.elected).collect();
        let times: Vec<Instant> = breaks.iter().map(|fault| fault.at).collect();
        let gaps = shared.gaps.around(&times);
        self.tell_long(&breaks, &gaps);
        let mut downs: Vec<Duration> = gaps.into_iter().flatten().collect();
        downs.sort_unstable();
        let ms = |at: usize| downs[at.min(downs.len() - 1)].as_secs_f64() * 1e3;
        let failover_ms = (!downs.is_empty()).then(|| FailoverMs {
            p50: ms(downs.len() / 2),
            p90: ms(downs.len() * 9 / 10),
            max: ms(downs.len()),
        });
        let (cpu_percent, client_cpu_percent) = cpu.percent(self.machine.cores as f64);
        ClusterRow {
            nodes: self.shape.nodes,
            workers: self.shape.workers,
            group_size: self.shape.group_size,
            batch: shared.plan.batch,
            wan: self.shape.wan.name(),
            tls: self.shape.tls,
            workload: self.workload.name(),
            clients: self.sizes.clients,
            pipeline: self.sizes.pipeline,
            groups_in_flight: self.shape.groups_in_flight,
            skew: self.sizes.skew,
            hot_pairs: self.sizes.hot_pairs,
            fault: self.fault.to_string(),
            rate: self.rate,
            seconds,
            tps: quotient(shared.commands_timed as f64, seconds),
            rtt_ms,
            floor_ms: self.floor_ms,
            cpu_percent,
            client_cpu_percent,
            leader_cpu_percent: cpu.leader_percent(self.machine.cores as f64),
            acknowledged: shared.witness.done,
            rejected: shared.witness.rejected,
            unresolved: shared.witness.unresolved,
            lost: findings.lost,
            duplicated: findings.duplicated,
            damaged: findings.damaged,
            conserved,
            replicas_equal,
            faults: all_breaks,
            failovers: breaks.len(),
            failover_ms,
            longest_gap_ms: shared.longest_gap_ms(faults),
            history: None,
            footprint_mib: None,
            directory_ratio: DirectoryRatio::default(),
            during_images: None,
            rolling_rounds: None,
            absences: None,
            frames_damaged: None,
            waits_for_room: None,
            seed: self.sizes.seed,
            round: self.round,
            machine: self.machine,
        }
    }
}
