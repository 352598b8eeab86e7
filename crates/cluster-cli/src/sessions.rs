//! `namiki cluster sessions`: lists the sessions of clients, and closes those that programs have left behind.

use std::time::Duration;

use clap::Args;
use namiki_client::protocol::SessionEntry;
use namiki_client::{Client, ClientOptions, close_session, sessions};
use namiki_terminal::number_format::grouped;

use crate::chosen_cluster::ChosenCluster;
use crate::failure::{Failure, print};
use crate::status::{Site, aligned};

/// Timeout of the leader's answers.
const TIMEOUT: Duration = Duration::from_secs(20);

const COLUMNS: [&str; 6] = [
    "session",
    "client",
    "last entry",
    "not used for",
    "groups",
    "results",
];
/// The columns of numbers.
const NUMBERS: std::ops::Range<usize> = 2..COLUMNS.len();

const HELP: &str = "\
A session stays until it is closed, as its client may come back and ask what became of a payment. A program that ends without
closing its session leaves it, with the results of its last groups. Their number is limited for each client, and for all.

Close a session only if no process uses it or has stored its token: the outcomes of its last groups are forgotten, and a process
that still holds it gets NoSuchSession. The time without use is counted by the leader, since its start at most.

  namiki cluster sessions                                  the cluster in the folder namiki-cluster
  namiki cluster sessions --config node.toml               the members in any node's configuration
  namiki cluster sessions --close 17 --close 23            close these
  namiki cluster sessions --close-idle 7d                  close those that were not used for a week";

/// Arguments of `namiki cluster sessions`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct SessionsArguments {
    #[command(flatten)]
    cluster: ChosenCluster,
    /// Close this session; may be repeated
    #[arg(long, value_name = "SESSION")]
    close: Vec<u64>,
    /// Close the sessions that were not used for this time, such as 90s, 30m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = time_of)]
    close_idle: Option<Duration>,
}

/// A number with a unit.
fn time_of(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let seconds = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    let seconds = seconds.filter(|it| *it > 0);
    (seconds.map(Duration::from_secs))
        .ok_or_else(|| "write a number and a unit: 90s, 30m, 12h or 7d".to_owned())
}

/// Runs the command. `local` finds the nodes of the cluster on this machine.
pub(crate) fn run(
    arguments: &SessionsArguments,
    local: impl FnOnce() -> Result<(Vec<Site>, ClientOptions), Failure>,
) -> Result<(), Failure> {
    let (sites, options) = arguments.cluster.find(local)?;
    let addresses: Vec<String> = sites.into_iter().map(|it| it.address).collect();
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..options
    };
    let mut client = Client::connect(addresses, options.clone())?;
    // Only the leader answers it.
    client.read(Vec::new())?;
    let leader = client.leader().unwrap_or_default().to_owned();
    let found = sessions(&leader, &options)?;
    if arguments.close.is_empty() && arguments.close_idle.is_none() {
        return print(&table(&found));
    }
    for number in &arguments.close {
        if !found.iter().any(|it| it.session.0 == *number) {
            return Err(Failure::NoSession(*number));
        }
    }
    let is_idle = |it: &SessionEntry| {
        let idle = arguments.close_idle;
        idle.is_some_and(|idle| it.idle_s >= idle.as_secs())
    };
    let chosen = |it: &&SessionEntry| arguments.close.contains(&it.session.0) || is_idle(it);
    let (mut closed, mut used) = (0, Vec::new());
    for session in found.iter().filter(chosen) {
        if close_session(&leader, session, &options)? {
            closed += 1;
        } else {
            used.push(session.session.0);
        }
    }
    let mut text = format!("closed: {closed}\n");
    for number in used {
        text.push_str(&format!(
            "session {number} stays: a process has resumed it just now\n"
        ));
    }
    print(&text)
}

fn table(found: &[SessionEntry]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(|it| {
        vec![
            it.session.0.to_string(),
            it.client.clone(),
            grouped(it.used),
            time_text(it.idle_s),
            grouped(it.groups),
            grouped(it.results),
        ]
    }));
    aligned(&rows, NUMBERS)
}

/// A time in its largest unit, rounded down.
fn time_text(seconds: u64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text| time_of(text).map(|it| it.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("30m"), Ok(1800));
        assert_eq!(seconds("12h"), Ok(43_200));
        assert_eq!(seconds("7d"), Ok(604_800));
        for wrong in ["", "7", "d", "0d", "-1d", "1w", "99999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            [59, 60, 3600, 90_000].map(time_text),
            ["59 s", "1 min", "1 h", "1 d"]
        );
    }
}
