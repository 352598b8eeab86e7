//! Simulates clusters from seeds until the time is over or a check fails. `cargo xtask sim` runs
//! it.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use clap::Args;
use namiki_cluster::Fault;
use namiki_cluster::simulation::{self, SimOptions};

/// Simulates whole clusters: real nodes on simulated disks and a simulated network, in virtual
/// time. Each seed is another run, and the same seed always gives the same run. Ends with an error
/// at the first failing run and prints its seed.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The time to run.
    #[arg(long, conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// Number of seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds of virtual time with faults in each seed's run.
    #[arg(long, default_value_t = 15)]
    fault_seconds: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// A rule to break, such as `ForgetSessions`: prints the first seed that finds it. `all`: every
    /// rule, each within the first 200 seeds.
    #[arg(long)]
    fault: Option<String>,
}

/// Sums over all seeds.
#[derive(Default)]
struct Totals {
    seeds: u64,
    counted: u64,
    leaders: u64,
    crashes: u64,
    replacements: u64,
    acknowledged: u64,
    reads: u64,
    entries: u64,
    simulated: Duration,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.fault {
        Some(fault) => find_fault(arguments, fault),
        None => explore(arguments),
    }
}

fn options(arguments: &Arguments, seed: u64) -> SimOptions {
    SimOptions {
        faults_ms: arguments.fault_seconds * 1000,
        ..SimOptions::of(seed)
    }
}

/// Treats a panic as a failure like any other; its message is already printed.
fn run_caught(options: &SimOptions) -> Result<simulation::SimReport, String> {
    catch_unwind(|| simulation::run(options))
        .unwrap_or_else(|_| Err("a node has panicked".to_owned()))
}

fn explore(arguments: &Arguments) -> Result<(), String> {
    let until = arguments
        .minutes
        .map(|it| Instant::now() + Duration::from_secs(60 * it));
    let last = arguments.seed + arguments.seeds;
    let cpu = namiki_platform::clock::process_cpu_ns().unwrap_or_default();
    let totals = std::sync::Mutex::new(Totals::default());
    let explore = |thread: u64| -> Result<(), String> {
        let seeds = (arguments.seed + thread..).step_by(arguments.threads as usize);
        for seed in seeds {
            let is_over = until.map_or(seed >= last, |until| Instant::now() >= until);
            if is_over {
                break;
            }
            let again = || format!("cargo xtask sim --seed {seed} --seeds 1");
            let report = run_caught(&options(arguments, seed))
                .map_err(|why| format!("seed {seed}: {why}\nto see it again: {}", again()))?;
            let mut totals = totals.lock().map_err(|_| "another thread has failed")?;
            totals.seeds += 1;
            totals.counted += u64::from(report.counts());
            totals.leaders += report.leaders as u64;
            totals.crashes += report.crashes as u64;
            totals.replacements += report.replacements as u64;
            totals.acknowledged += report.acknowledged as u64;
            totals.reads += report.reads as u64;
            totals.entries += report.entries;
            totals.simulated += Duration::from_millis(report.simulated_ms);
            if totals.seeds.is_multiple_of(500) {
                eprintln!("{} seeds, up to {seed}", totals.seeds);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads.max(1))
            .map(|thread| scope.spawn(move || explore(thread)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("a thread has panicked".to_owned()))
        })
    })?;
    let cpu = namiki_platform::clock::process_cpu_ns().unwrap_or_default() - cpu;
    let totals = totals.into_inner().map_err(|_| "a thread has panicked")?;
    let ratio = totals.simulated.as_secs_f64() / Duration::from_nanos(cpu).as_secs_f64();
    println!(
        "{} seeds from {} on, all well; {} of them had a change of leader and a hundred acknowledged commands\n\
         {} leaders, {} crashes, {} nodes replaced, {} entries, {} commands and {} reads answered\n\
         {:.0} s of virtual time, {ratio:.0} for each second of processor time",
        totals.seeds,
        arguments.seed,
        totals.counted,
        totals.leaders,
        totals.crashes,
        totals.replacements,
        totals.entries,
        totals.acknowledged,
        totals.reads,
        totals.simulated.as_secs_f64(),
    );
    Ok(())
}

fn find_fault(arguments: &Arguments, name: &str) -> Result<(), String> {
    let named = |fault: &&Fault| name == "all" || name == format!("{fault:?}");
    let faults: Vec<_> = Fault::ALL.iter().filter(named).collect();
    if faults.is_empty() {
        let all: Vec<_> = Fault::ALL
            .iter()
            .map(|fault| format!("{fault:?}"))
            .collect();
        return Err(format!(
            "there is no fault `{name}`; there are: all, {}",
            all.join(", ")
        ));
    }
    let mut not_found = Vec::new();
    for fault in faults {
        let found = (arguments.seed..arguments.seed + 200).find_map(|seed| {
            let options = options(arguments, seed).with_fault(*fault);
            run_caught(&options).err().map(|why| (seed, why))
        });
        match found {
            Some((seed, why)) => println!("{fault:?} is found by seed {seed}: {why}"),
            None => not_found.push(format!("{fault:?}")),
        }
    }
    if not_found.is_empty() {
        return Ok(());
    }
    Err(format!("200 seeds do not find {}", not_found.join(", ")))
}
