//! The example of README.md: `cargo run -p namiki --example payments`.
#![allow(clippy::print_stdout, reason = "it is a program")]

use namiki::Database;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = Database::open("shop")?; // created, or recovered
    let accounts = db.table::<u64, i64>("accounts")?; // kept in key order
    let payments = db.table::<(u64, u64), str>("payments")?; // (payer, number)

    db.transact(|tx| {
        tx.put(&accounts, &1, &100)?;
        tx.put(&accounts, &2, &0)
    })?; // returns when it is durable

    // Runs again after a conflict, so it must not do anything but read and write.
    db.transact(|tx| {
        let balance = tx.get(&accounts, &1)?.unwrap_or(0);
        if balance < 10 {
            return tx.abort("insufficient funds"); // rolls back
        }
        let number = tx.scan(&payments, (1, 0)..=(1, u64::MAX))?.len() as u64;
        tx.put(&accounts, &1, &(balance - 10))?;
        tx.add(&accounts, &2, 10)?; // never conflicts with another `add`
        tx.insert(&payments, &(1, number), "10 to account 2") // fails if the key exists
    })?;

    for (account, balance) in db.transact(|tx| tx.scan(&accounts, ..))? {
        println!("account {account}: {balance}");
    }
    db.close()?; // or drop it
    Ok(())
}
