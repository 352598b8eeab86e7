//! Runs transactions on a simulated disk and crashes them at every event. `cargo xtask crash` and
//! `cargo xtask soak` run it.

use std::num::NonZeroUsize;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use namiki_tests::crash::{Depth, Kind, Plan, Sweep, Visit, layout};

/// Crashes runs of transactions at every event, with every kind of loss, and checks the recovered
/// state.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of rounds, each with another seed: every protocol, every layout, every kind of run.
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// Run for this time instead, and at least for one round. The first three rounds are an eighth,
    /// a quarter and a half as deep as the others.
    #[arg(long, conflicts_with = "rounds")]
    minutes: Option<u64>,
    /// Transactions in a run.
    #[arg(long, default_value_t = 60)]
    transactions: u64,
    /// Random subsets of the pending writes, at each event.
    #[arg(long, default_value_t = Depth::LONG.subsets)]
    subsets: u64,
    /// Up to this number of pending sectors, each is lost alone, and kept alone; above it, as many
    /// as there are subsets.
    #[arg(long, default_value_t = Depth::LONG.sectors_each_max)]
    sectors: usize,
    /// The probability of continuing after a recovery and crashing again.
    #[arg(long, default_value_t = Depth::LONG.second)]
    second: f64,
    /// The probability of a third crash after that.
    #[arg(long, default_value_t = Depth::LONG.third)]
    third: f64,
    /// Only these protocols: part of their name.
    #[arg(long, default_value = "")]
    spec: String,
    /// Only these kinds of runs: part of their name, as in `ShortBlocks`.
    #[arg(long, default_value = "")]
    kind: String,
    /// Only `files` or `device`.
    #[arg(long, default_value = "", value_parser = ["", layout(false), layout(true)])]
    layout: String,
    /// Number of runs crashed at a time; by default the number of processors.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
}

impl Arguments {
    fn plan(&self) -> Plan {
        Plan {
            seed: self.seed,
            transactions: self.transactions,
            depth: Depth {
                subsets: self.subsets,
                sectors_each_max: self.sectors,
                second: self.second,
                third: self.third,
                ..Depth::LONG
            },
            deepens: self.minutes.is_some(),
        }
    }

    /// Whether visit number `number` is still made.
    fn goes_on(&self, number: u64, elapsed: Duration) -> bool {
        let round = number / Plan::visits_of_a_pass();
        match self.minutes {
            Some(minutes) => round == 0 || elapsed < Duration::from_secs(60 * minutes),
            None => round < self.rounds,
        }
    }

    fn wants(&self, visit: &Visit) -> bool {
        let (spec, shared) = visit.combination;
        spec.to_string().contains(&self.spec) && layout(shared).contains(&self.layout)
    }

    fn kinds(&self) -> Vec<Kind> {
        let is_wanted = |kind: &Kind| format!("{kind:?}").contains(&self.kind);
        Kind::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let plan = arguments.plan();
    if (0..Plan::visits_of_a_pass()).all(|number| !arguments.wants(&plan.visit(number))) {
        return Err(format!("no protocol has `{}` in its name", arguments.spec));
    }
    let kinds = arguments.kinds();
    if kinds.is_empty() {
        return Err(format!(
            "no kind of run has `{}` in its name",
            arguments.kind
        ));
    }
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None);
    let all = Mutex::new((0_u64, Sweep::default()));
    let work = || {
        while lock(&failed).is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if !arguments.goes_on(number, began.elapsed()) {
                break;
            }
            let visit = plan.visit(number);
            if !arguments.wants(&visit) {
                continue;
            }
            let swept = catch_unwind(|| visit.make(&kinds));
            let swept = swept.unwrap_or_else(|_| Err("a run has panicked".to_owned()));
            let mut all = lock(&all);
            match swept {
                Ok(swept) => {
                    all.0 += 1;
                    all.1 += swept;
                }
                Err(wrong) => {
                    let again = visit.arguments();
                    let told = format!("{wrong}\nto see it again: cargo xtask crash {again}");
                    lock(&failed).get_or_insert(told);
                    break;
                }
            }
            let ((spec, shared), all) = (visit.combination, &all.1);
            println!(
                "round {}, seed {}, {spec}, {}: {} images so far, {} of them second crashes, {} third ones, \
                 {} within {} checkpoints, {} within recoveries, {} s",
                visit.pass + 1,
                visit.seed,
                layout(shared),
                all.images,
                all.second,
                all.third,
                all.in_checkpoint,
                all.checkpoints,
                all.in_recovery,
                began.elapsed().as_secs()
            );
        }
    };
    let jobs = arguments
        .jobs
        .or_else(|| thread::available_parallelism().ok());
    let jobs = jobs.map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    if let Some(wrong) = lock(&failed).take() {
        return Err(wrong);
    }
    let (visits, all) = &*lock(&all);
    for ((index, keys), images) in &all.by_index {
        println!("{images:9} images of {index}, {keys:?} keys");
    }
    println!("{visits} visits, nothing lost, nothing partial: {all:?}");
    Ok(())
}

/// Locks a mutex. A thread that panicked leaves its data whole, so poisoning is ignored.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
