//! `namiki cluster certificates`: an authority of one's own, to try out TLS.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use namiki_client::tls::Authority;
use namiki_cluster::config::new_cluster_number;

use crate::failure::{Failure, print};

const DAY: Duration = Duration::from_secs(86_400);

const HELP: &str = "\
Into DIR: ca.pem and ca.key (the authority), node-N.pem and node-N.key for each node, client.pem and client.key. Only you
can read the keys. A node's configuration names its own:

  [tls]
  authority = \"ca.pem\"
  certificate = \"node-1.pem\"
  key = \"node-1.key\"

Copy to each machine these three alone. With ca.key any node can be made: keep it elsewhere.";

/// What `namiki cluster certificates` is told.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct CertificatesArguments {
    /// The folder of the files, none of which may be there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// For how many nodes, from 1
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    nodes: u16,
    /// How long they are valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// The number of the cluster, as its configuration has it: 32 hexadecimal digits. Without it a new one is chosen
    #[arg(long, value_name = "NUMBER", value_parser = cluster_number)]
    cluster: Option<u128>,
}

fn cluster_number(text: &str) -> Result<u128, String> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = digits.then(|| u128::from_str_radix(text, 16).ok());
    let number = number.flatten();
    number.ok_or_else(|| "write 32 hexadecimal digits".to_owned())
}

/// Makes them.
pub(super) fn make(arguments: &CertificatesArguments) -> Result<(), Failure> {
    let cluster = arguments.cluster.unwrap_or_else(new_cluster_number);
    let authority = Authority::new(cluster, DAY * arguments.days)?;
    authority.write(&arguments.folder, 1..=u64::from(arguments.nodes))?;
    let (nodes, days) = (arguments.nodes, arguments.days);
    print(&format!(
        "{} holds an authority and certificates for {nodes} nodes and for clients of cluster {cluster:032x}, valid for {days} days\n",
        arguments.folder.display()
    ))
}
