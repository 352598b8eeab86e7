//! A local cluster's directory.
//!
//! ```text
//! DIR/node-1/namiki.toml    its configuration, as for a real machine
//! DIR/node-1/data/          its logs
//! DIR/node-1/pid            its process
//! DIR/node-1/log.txt        its log
//! DIR/cuts                  cut links, a line each: 1-3
//! DIR/certificates/         the authority, and certificates of nodes and clients, if connections are protected
//! ```

use std::fs;
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use namiki_client::tls::{Authority, CertificateFiles, IssueError};
use namiki_client::{ClientOptions, Security, TlsOptions};
use namiki_cluster::NodeId;
use namiki_cluster::config::{Member, NodeConfig, new_cluster_number};
use namiki_cluster::transport::City;

use crate::failure::{Failure, device};
use crate::node::{Members, NewDirectory, init, read_config};
use crate::status::{Links, Nodes, Seen, Site, leader, look};

/// Timeout of the answer of a node that is asked for its state.
const STATUS_TIMEOUT: Duration = Duration::from_millis(500);
/// The folder of certificates.
const CERTIFICATES: &str = "certificates";
const CERTIFICATES_VALID: Duration = Duration::from_secs(365 * 86_400);
/// Distance between the ports for nodes and those for clients.
const CLIENT_PORTS: u16 = 100;
/// Distance between the ports for nodes and those for scrapers.
const METRICS_PORTS: u16 = 150;
/// The first port for nodes.
pub(super) const DEFAULT_PORT: u16 = 7401;
/// Step to the next candidate if ports are taken.
const NEXT_PORTS: u16 = 200;

/// A local cluster.
pub(crate) struct LocalCluster {
    pub(super) dir: PathBuf,
    pub(super) nodes: Vec<LocalNode>,
    /// Client options that connect to this cluster, and to no other that has taken one of its
    /// ports.
    pub(crate) options: ClientOptions,
}

/// A node of it.
pub(super) struct LocalNode {
    pub(super) id: u64,
    pub(super) dir: PathBuf,
    pub(super) config: NodeConfig,
}

impl LocalNode {
    pub(super) fn config_path(&self) -> PathBuf {
        self.dir.join("namiki.toml")
    }

    pub(super) fn pid_path(&self) -> PathBuf {
        self.dir.join("pid")
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.dir.join("log.txt")
    }

    /// Its address for clients.
    pub(super) fn address(&self) -> &str {
        &self.config.client_listen
    }

    pub(super) fn city(&self) -> Option<City> {
        self.config.own_member()?.city
    }
}

/// Settings of a new cluster.
pub(super) struct NewCluster<'a> {
    pub(super) nodes: u16,
    pub(super) cities: bool,
    /// Whether connections are protected.
    pub(super) tls: bool,
    /// Whether nodes serve `/metrics`.
    pub(super) metrics: bool,
    pub(super) port: u16,
    /// Adjusts a node's configuration.
    pub(super) adjust: &'a dyn Fn(&mut NodeConfig),
}

impl LocalCluster {
    /// The cluster in this directory, if it exists.
    pub(super) fn find(dir: &Path) -> Result<Option<Self>, Failure> {
        let mut nodes = Vec::new();
        for id in numbers_in(dir)? {
            let dir = node_dir(dir, id);
            let path = dir.join("namiki.toml");
            if path.exists() {
                let config = read_config(&path)?;
                nodes.push(LocalNode { id, dir, config });
            }
        }
        let security = match nodes.first() {
            Some(node) if node.config.tls.is_some() => {
                Security::tls(&CertificateFiles::in_folder(&dir.join(CERTIFICATES)).client())?
            }
            _ => Security::Plain,
        };
        let options = ClientOptions {
            security,
            cluster: nodes.first().map(|node| node.config.cluster),
            ..ClientOptions::default()
        };
        let found = Self {
            dir: dir.to_owned(),
            nodes,
            options,
        };
        Ok((!found.nodes.is_empty()).then_some(found))
    }

    /// The cluster in this directory.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        Self::find(dir)?.ok_or_else(|| Failure::NoCluster(dir.to_owned()))
    }

    /// Makes a cluster: configurations and directories. Nothing runs.
    pub(super) fn create(dir: &Path, new: &NewCluster<'_>) -> Result<Self, Failure> {
        let ports = free_ports(new.port, new.nodes)?;
        let members: Vec<Member> = ports
            .clone()
            .enumerate()
            .map(|(at, port)| {
                let city = new.cities.then(|| City::ALL[at % City::ALL.len()]);
                member_at(at as u64 + 1, port, city)
            })
            .collect();
        let cluster = new_cluster_number();
        if new.tls {
            let nodes = members.iter().map(|member| member.id.number());
            Authority::new(cluster, CERTIFICATES_VALID)?.write(&dir.join(CERTIFICATES), nodes)?;
        }
        for (member, port) in members.iter().zip(ports) {
            let dir = node_dir(dir, member.id.number());
            let mut config = NodeConfig::new(cluster, member.id, "data".into(), members.clone());
            config.emulate_cities = new.cities;
            config.allow_cuts = true;
            config.tls = new.tls.then(|| certificate_of(member.id.number()));
            config.metrics_listen =
                (new.metrics).then(|| format!("127.0.0.1:{}", port + METRICS_PORTS));
            (new.adjust)(&mut config);
            let text = text_of(&config, &dir)?;
            config.directory = dir.join("data");
            init(&config, &NewDirectory::of_new_cluster(&config))?;
            // Last, because a node with a configuration counts as made.
            write(&dir.join("namiki.toml"), &text)?;
        }
        Self::open(dir)
    }

    /// The cluster with the configuration of one more node, which is configured as the first one.
    pub(super) fn with_node(self, number: u64) -> Result<Self, Failure> {
        let first = self.nodes.first();
        let first = first.ok_or_else(|| Failure::NoCluster(self.dir.clone()))?;
        if !(1..=NodeId::MAX).contains(&number) {
            return Err(Failure::NoNode(number.to_string()));
        }
        let ports = first.config.peer_listen.rsplit_once(':');
        let first_port = ports.and_then(|(_, port)| port.parse::<u16>().ok());
        let steps = u16::try_from(number.saturating_sub(first.id)).unwrap_or(0);
        let ports = free_ports(first_port.unwrap_or(DEFAULT_PORT).saturating_add(steps), 1)?;
        let at = usize::try_from(number - 1).unwrap_or(0);
        let city = (first.config.emulate_cities).then(|| City::ALL[at % City::ALL.len()]);
        let member = member_at(number, ports.start, city);
        let others = self
            .nodes
            .iter()
            .filter_map(|node| node.config.own_member());
        let config = NodeConfig {
            node: member.id,
            directory: "data".into(),
            peer_listen: member.peer.clone(),
            client_listen: member.client.clone(),
            metrics_listen: (first.config.metrics_listen.as_ref())
                .map(|_| format!("127.0.0.1:{}", ports.start + METRICS_PORTS)),
            members: others.cloned().chain([member]).collect(),
            tls: first.config.tls.as_ref().map(|_| certificate_of(number)),
            ..first.config.clone()
        };
        if config.tls.is_some() {
            let folder = self.dir.join(CERTIFICATES);
            let authority = Authority::read(&folder, config.cluster, CERTIFICATES_VALID)?;
            match authority.write_node(&folder, number) {
                // The number had another node.
                Ok(()) | Err(IssueError::Exists(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let dir = node_dir(&self.dir, number);
        let text = text_of(&config, &dir)?;
        fs::create_dir_all(&dir).map_err(device("make", &dir))?;
        write(&dir.join("namiki.toml"), &text)?;
        Self::open(&self.dir)
    }

    /// The nodes, to be asked for their state.
    pub(crate) fn sites(&self) -> Result<Vec<Site>, Failure> {
        let site = |node: &LocalNode| {
            Ok(Site {
                number: Some(node.id),
                city: node.city(),
                address: node.address().to_owned(),
                process: Some(node.process()?),
            })
        };
        self.nodes.iter().map(site).collect()
    }

    /// The leader, if there is one; among several, that of the latest term.
    pub(super) fn leader(&self) -> Result<Option<u64>, Failure> {
        Ok(leader(&self.look()?).map(|status| status.node))
    }

    /// Client options with this timeout.
    pub(super) fn within(&self, timeout: Duration) -> ClientOptions {
        ClientOptions {
            timeout,
            ..self.options.clone()
        }
    }

    /// The node of this number.
    pub(super) fn node(&self, id: u64) -> Result<&LocalNode, Failure> {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.ok_or_else(|| Failure::NoNode(id.to_string()))
    }

    /// The cluster, as the operator of one of its nodes sees it: the others are asked first.
    pub(super) fn members(&self, node: u64) -> Result<Members, Failure> {
        let of = |is_own: bool| {
            self.nodes
                .iter()
                .filter(move |it| (it.id == node) == is_own)
        };
        let addresses = of(false).chain(of(true)).map(|it| it.address().to_owned());
        Members::at(addresses, node, &self.options)
    }

    pub(super) fn cuts_path(&self) -> PathBuf {
        self.dir.join("cuts")
    }
}

impl Nodes for LocalCluster {
    fn look(&self) -> Result<Vec<Seen>, Failure> {
        Ok(look(self.sites()?, &self.within(STATUS_TIMEOUT)))
    }

    fn cut_links(&self) -> Result<Links, Failure> {
        self.cuts()
    }
}

/// The files of a node, as its configuration names them.
fn certificate_of(node: u64) -> TlsOptions {
    CertificateFiles::in_folder(&Path::new("..").join(CERTIFICATES)).node(node)
}

fn member_at(number: u64, port: u16, city: Option<City>) -> Member {
    Member {
        id: NodeId::first(number),
        peer: format!("127.0.0.1:{port}"),
        client: format!("127.0.0.1:{}", port + CLIENT_PORTS),
        city,
    }
}

/// The text of the configuration of the node in this folder.
fn text_of(config: &NodeConfig, dir: &Path) -> Result<String, Failure> {
    config.to_text().map_err(|source| Failure::Config {
        path: dir.join("namiki.toml"),
        source: Box::new(source),
    })
}

/// The numbers of the folders of nodes, in ascending order.
fn numbers_in(dir: &Path) -> Result<Vec<u64>, Failure> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(device("read", dir)(source)),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter_map(|name| name.strip_prefix("node-")?.parse().ok());
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Renames a folder: `data` to `data.lost`, or to `data.lost-2` and so on. Returns its new path.
pub(super) fn move_aside(folder: &Path, why: &str) -> Result<PathBuf, Failure> {
    let with = |suffix: &str| {
        let mut name = folder.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let numbered = (2..).map(|number: u32| with(&format!(".{why}-{number}")));
    let first = with(&format!(".{why}"));
    let mut names = std::iter::once(first.clone()).chain(numbered);
    let aside = names.find(|it| !it.exists()).unwrap_or(first);
    fs::rename(folder, &aside).map_err(device("move aside", folder))?;
    Ok(aside)
}

fn node_dir(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("node-{id}"))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(device("write", path))
}

/// Reads a file; a missing one is empty.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(device("read", path)(source)),
    }
}

/// Ports for nodes that are free now, like the ports for clients above them. They are below the
/// system's ephemeral ports, so that a node finds its port free when it is restarted.
fn free_ports(first: u16, nodes: u16) -> Result<Range<u16>, Failure> {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let bases = (first..u16::MAX - NEXT_PORTS).step_by(usize::from(NEXT_PORTS));
    let free = bases.take(20).find(|base| {
        let ports = *base..base + nodes;
        let apart = [0, CLIENT_PORTS, METRICS_PORTS];
        let mut ports = ports.flat_map(|port| apart.map(|it| port + it));
        ports.all(is_free)
    });
    let base = free.ok_or(Failure::NoPorts(2 * usize::from(nodes), first))?;
    Ok(base..base + nodes)
}
