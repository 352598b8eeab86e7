//! Indexes by hand: `cargo run -p namiki --example index_by_hand`
//!
//! An index is a table from the search key to the key of the row. It is changed in the transaction
//! that changes the row, so it is never stale: not for another thread, and not after a crash. Every
//! change goes through two functions, `put` and `remove`: they are the only ones that write any of
//! the three tables.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error as StdError;
use std::fmt;

use namiki::{Database, Error, Table, Transaction, Value};

#[derive(Value, Clone, Debug, PartialEq)]
struct Member {
    name: String,
    email: String,
    born: u16,
}

/// Why a member was not written.
#[derive(Debug)]
enum MemberError {
    EmailTaken { by: u64 },
    Database(Error),
}

impl From<Error> for MemberError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmailTaken { by } => write!(f, "member {by} has this address"),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl StdError for MemberError {}

struct Members {
    db: Database,
    members: Table<u64, Member>,
    /// Unique: the address is the whole key, so there is one row for it.
    by_email: Table<str, u64>,
    /// Not unique: the row's own key is the end of the index's key, and there is nothing to be its value.
    by_year: Table<(u16, u64), ()>,
}

impl Members {
    fn open(dir: &str) -> Result<Self, Box<dyn StdError>> {
        let db = Database::open(dir)?;
        Ok(Self {
            members: db.table("members")?,
            by_email: db.table("members_by_email")?,
            by_year: db.table("members_by_year")?,
            db,
        })
    }

    /// Writes a member, new or changed.
    fn put(&self, tx: &mut Transaction, id: u64, member: &Member) -> Result<(), MemberError> {
        self.remove(tx, id)?; // of the index, what was there before
        if let Some(by) = tx.get(&self.by_email, &member.email)? {
            return Err(MemberError::EmailTaken { by });
        }
        tx.put(&self.by_email, &member.email, &id)?;
        tx.put(&self.by_year, &(member.born, id), &())?;
        tx.put(&self.members, &id, member)?;
        Ok(())
    }

    /// Removes a member; returns whether there was one.
    fn remove(&self, tx: &mut Transaction, id: u64) -> Result<bool, Error> {
        let Some(before) = tx.get(&self.members, &id)? else {
            return Ok(false);
        };
        tx.delete(&self.by_email, &before.email)?;
        tx.delete(&self.by_year, &(before.born, id))?;
        tx.delete(&self.members, &id)
    }

    /// The member with an address.
    fn with_email(&self, email: &str) -> Result<Option<Member>, Error> {
        self.db.transact(|tx| match tx.get(&self.by_email, email)? {
            Some(id) => tx.get(&self.members, &id),
            None => Ok(None),
        })
    }

    /// The members born in some years, the youngest first.
    fn born_in(&self, years: std::ops::Range<u16>) -> Result<Vec<Member>, Error> {
        self.db.transact(|tx| {
            let mut ids = Vec::new();
            for row in tx
                .range(&self.by_year, (years.start, 0)..(years.end, 0))
                .rev()
            {
                let ((_, id), ()) = row?;
                ids.push(id);
            }
            let mut found = Vec::new();
            tx.get_many(&self.members, &ids, &mut found)?;
            Ok(found.into_iter().flatten().collect())
        })
    }

    /// Whether the indexes agree with the members: a check for a program's tests.
    fn is_consistent(&self) -> Result<bool, Error> {
        self.db.transact(|tx| {
            let members = tx.scan(&self.members, ..)?;
            let mut emails: Vec<_> = members
                .iter()
                .map(|(id, member)| (member.email.clone(), *id))
                .collect();
            let mut years: Vec<_> = members
                .iter()
                .map(|(id, member)| ((member.born, *id), ()))
                .collect();
            emails.sort();
            years.sort();
            Ok(tx.scan(&self.by_email, ..)? == emails && tx.scan(&self.by_year, ..)? == years)
        })
    }
}

fn main() -> Result<(), Box<dyn StdError>> {
    let members = Members::open("members")?;
    let member = |name: &str, email: &str, born| Member {
        name: name.to_owned(),
        email: email.to_owned(),
        born,
    };
    let put = |id, member: &Member| members.db.transact_with(|tx| members.put(tx, id, member));

    put(1, &member("Ada", "ada@example.org", 1815))?;
    put(2, &member("Grace", "grace@example.org", 1906))?;
    put(3, &member("Kurt", "kurt@example.org", 1906))?;
    put(4, &member("Alan", "alan@example.org", 1912))?;

    // Refused, and with it the removal that `put` begins with.
    match put(4, &member("Alan", "ada@example.org", 1912)) {
        Err(refused @ MemberError::EmailTaken { .. }) => println!("refused: {refused}"),
        other => other?,
    }
    put(4, &member("Alan", "turing@example.org", 1912))?; // the old address is free again
    members.db.transact(|tx| members.remove(tx, 3))?;

    for email in ["turing@example.org", "alan@example.org"] {
        let name = members.with_email(email)?.map(|member| member.name);
        println!("{email}: {name:?}");
    }
    for member in members.born_in(1900..2000)? {
        println!("born in {}: {}", member.born, member.name);
    }
    println!("indexes agree with the table: {}", members.is_consistent()?);
    members.db.close()?;
    Ok(())
}
