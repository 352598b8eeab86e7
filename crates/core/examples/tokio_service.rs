//! A service on tokio: accounts over TCP, a line for each request. `cargo run -p namiki --example tokio_service`
//!
//! ```text
//!   deposit 1 100      balance 100
//!   transfer 1 2 30    ok
//!   transfer 1 2 300   refused: 230 short
//!   balance 2          balance 30
//! ```
//! A request is one transaction, and is answered when that is durable. Each connection is a task; no thread waits for the
//! disk, so a runtime with two threads serves as many connections as come.
#![cfg(not(loom))] // nor is tokio then
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use namiki::{Database, Table};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Why a request was not carried out.
#[derive(Debug)]
enum Refused {
    Short(u64),
    Unreadable,
    Database(namiki::Error),
}

impl From<namiki::Error> for Refused {
    fn from(error: namiki::Error) -> Self {
        Self::Database(error)
    }
}

#[derive(Clone)]
struct Bank {
    db: Database,
    balances: Table<u64, u64>,
}

impl Bank {
    fn open(db: Database) -> Result<Self, namiki::Error> {
        let balances = db.table("balances")?;
        Ok(Self { db, balances })
    }

    async fn answer(&self, request: &str) -> Result<String, Refused> {
        let words: Vec<_> = request.split_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| Refused::Unreadable);
        match words[..] {
            ["deposit", account, amount] => self.deposit(number(account)?, number(amount)?).await,
            ["transfer", from, to, amount] => {
                self.transfer(number(from)?, number(to)?, number(amount)?)
                    .await
            }
            ["balance", account] => self.balance(number(account)?).await,
            _ => Err(Refused::Unreadable),
        }
    }

    async fn deposit(&self, account: u64, amount: u64) -> Result<String, Refused> {
        let deposited = self.db.transact_in_task(|tx| {
            let balance = tx.get(&self.balances, &account)?.unwrap_or(0);
            let balance = balance.saturating_add(amount);
            tx.put(&self.balances, &account, &balance)?;
            Ok(balance)
        });
        Ok(format!("balance {}", deposited.await?))
    }

    async fn transfer(&self, from: u64, to: u64, amount: u64) -> Result<String, Refused> {
        let transferred = self.db.transact_in_task_with(|tx| {
            let there = tx.get(&self.balances, &from)?.unwrap_or(0);
            let left = there
                .checked_sub(amount)
                .ok_or(Refused::Short(amount - there.min(amount)))?;
            tx.put(&self.balances, &from, &left)?;
            let there = tx.get(&self.balances, &to)?.unwrap_or(0);
            tx.put(&self.balances, &to, &there.saturating_add(amount))?;
            Ok(())
        });
        transferred.await.map(|()| "ok".to_owned())
    }

    async fn balance(&self, account: u64) -> Result<String, Refused> {
        let found = self
            .db
            .transact_in_task(|tx| tx.get(&self.balances, &account))
            .await?;
        Ok(format!("balance {}", found.unwrap_or(0)))
    }

    /// Answers the requests of a connection until it ends.
    async fn serve(self, stream: TcpStream) -> Result<(), std::io::Error> {
        let (read, mut write) = stream.into_split();
        let mut requests = BufReader::new(read).lines();
        while let Some(request) = requests.next_line().await? {
            let answer = match self.answer(&request).await {
                Ok(answer) => answer,
                Err(Refused::Short(missing)) => format!("refused: {missing} short"),
                Err(Refused::Unreadable) => {
                    "deposit ACCOUNT AMOUNT, transfer FROM TO AMOUNT, or balance ACCOUNT".to_owned()
                }
                Err(Refused::Database(error)) => format!("failed: {error}"),
            };
            write.write_all(format!("{answer}\n").as_bytes()).await?;
        }
        Ok(())
    }
}

async fn accept(bank: Bank, listener: TcpListener) -> Result<(), std::io::Error> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(bank.clone().serve(stream));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let bank = Bank::open(Database::open("bank")?)?;
        let listener = TcpListener::bind("127.0.0.1:7878").await?;
        println!(
            "listening on {}; try: nc 127.0.0.1 7878",
            listener.local_addr()?
        );
        accept(bank, listener).await?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    async fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> String {
        stream
            .write_all(format!("{request}\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_line(&mut answer).await.unwrap();
        answer.trim_end().to_owned()
    }

    /// Fifty connections transfer round a ring; no money is made or lost, and refusals change nothing.
    #[test]
    fn connections_are_served_side_by_side() {
        const ACCOUNTS: u64 = 50;
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("bank")).unwrap();
        let bank = Bank::open(db).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(accept(bank, listener));
            let clients: Vec<_> = (0..ACCOUNTS)
                .map(|account| {
                    tokio::spawn(async move {
                        let stream = TcpStream::connect(address).await.unwrap();
                        let mut stream = BufReader::new(stream);
                        ask(&mut stream, &format!("deposit {account} 100")).await;
                        let refused =
                            ask(&mut stream, &format!("transfer {} 7 5", 1_000 + account)).await;
                        assert_eq!(refused, "refused: 5 short");
                        let next = (account + 1) % ACCOUNTS;
                        for _ in 0..20 {
                            let answer =
                                ask(&mut stream, &format!("transfer {account} {next} 3")).await;
                            assert!(answer == "ok" || answer.starts_with("refused"), "{answer}");
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            let stream = TcpStream::connect(address).await.unwrap();
            let mut stream = BufReader::new(stream);
            let mut sum = 0;
            for account in 0..ACCOUNTS {
                let answer = ask(&mut stream, &format!("balance {account}")).await;
                sum += answer
                    .strip_prefix("balance ")
                    .unwrap()
                    .parse::<u64>()
                    .unwrap();
            }
            assert_eq!(sum, 100 * ACCOUNTS);
            let help = ask(&mut stream, "steal 1 2").await;
            assert!(help.contains("transfer FROM TO AMOUNT"), "{help}");
        });
    }
}
