//! `namiki cluster certificates`: a certificate authority for trying out TLS.

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

Copy only these three to each machine. ca.key allows adding any node: keep it elsewhere.";

/// Arguments of `namiki cluster certificates`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct CertificatesArguments {
    /// The folder of the files; existing files are not overwritten
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Number of nodes
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    nodes: u16,
    /// Days for which the certificates are valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// The cluster's number from its configuration: 32 hexadecimal digits [default: a new one]
    #[arg(long, value_name = "NUMBER", value_parser = cluster_number)]
    cluster: Option<u128>,
}

fn cluster_number(text: &str) -> Result<u128, String> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = digits.then(|| u128::from_str_radix(text, 16).ok());
    let number = number.flatten();
    number.ok_or_else(|| "write 32 hexadecimal digits".to_owned())
}

/// Creates the files.
pub(crate) fn make(arguments: &CertificatesArguments) -> Result<(), Failure> {
    let cluster = arguments.cluster.unwrap_or_else(new_cluster_number);
    let authority = Authority::new(cluster, DAY * arguments.days)?;
    authority.write(&arguments.folder, 1..=u64::from(arguments.nodes))?;
    let (nodes, days) = (arguments.nodes, arguments.days);
    print(&format!(
        "{} holds an authority and certificates for {nodes} nodes and for clients of cluster {cluster:032x}, valid for {days} days\n",
        arguments.folder.display()
    ))
}
