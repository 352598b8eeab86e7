//! The cluster that a command is for: the one in the folder on this machine, or one that its flags name.

use std::path::PathBuf;

use clap::Args;
use namiki_client::ClientOptions;

use crate::failure::Failure;
use crate::node::{options_of, read_config};
use crate::status::Site;

/// The flags that name a cluster. `endpoints` replaces the addresses of `config`, whose certificate still counts.
#[derive(Args, Debug)]
pub(crate) struct ChosenCluster {
    /// For a cluster on several machines: the configuration of any node
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Addresses of nodes for clients, with commas between them
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    endpoints: Option<Vec<String>>,
}

impl ChosenCluster {
    /// Its nodes, and how they are connected to. `local` finds those of the cluster on this machine.
    ///
    /// # Errors
    /// Those of `local`, and those of a configuration that cannot be read.
    pub(crate) fn find(
        &self,
        local: impl FnOnce() -> Result<(Vec<Site>, ClientOptions), Failure>,
    ) -> Result<(Vec<Site>, ClientOptions), Failure> {
        let config = self.config.as_deref().map(read_config).transpose()?;
        let options = config.as_ref().map(options_of).transpose()?;
        let sites = match (&self.endpoints, &config) {
            (None, None) => return local(),
            (Some(endpoints), _) => endpoints.iter().map(|it| Site::at(it)).collect(),
            (None, Some(config)) => config.members.iter().map(Site::of).collect(),
        };
        Ok((sites, options.unwrap_or_default()))
    }
}
