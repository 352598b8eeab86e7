//! A type that changes between two releases of a program: `cargo run -p namiki --example changed_type`
//!
//! Rows of the first release stay as they are, and are converted when they are read.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error as StdError;

use namiki::{Database, Error};

/// The first release. Nothing in it says that the type will change.
mod first_release {
    use namiki::Value;

    #[derive(Value, Debug)]
    pub(super) struct Customer {
        pub(super) name: String,
        pub(super) city: String,
    }
}

/// The second release: it has the old type, to read old rows with, under the name that it had.
mod second_release {
    use namiki::Value;

    #[derive(Value, Debug)]
    #[namiki(name = "Customer")]
    pub(super) struct CustomerV1 {
        pub(super) name: String,
        pub(super) city: String,
    }

    #[derive(Value, Debug)]
    #[namiki(version = 2, from = CustomerV1, with = with_names_apart)]
    pub(super) struct Customer {
        pub(super) first_name: String,
        pub(super) last_name: String,
        pub(super) address: Address,
    }

    #[derive(Value, Debug, PartialEq)]
    pub(super) enum Address {
        City(String),
        Full { street: String, city: String },
    }

    fn with_names_apart(old: CustomerV1) -> Customer {
        let (first_name, last_name) = old.name.split_once(' ').unwrap_or((&old.name, ""));
        Customer {
            first_name: first_name.to_owned(),
            last_name: last_name.to_owned(),
            address: Address::City(old.city),
        }
    }
}

fn main() -> Result<(), Box<dyn StdError>> {
    let db = Database::open("customers")?;
    if db.tables().is_empty() {
        let customers = db.table::<u64, first_release::Customer>("customers")?;
        let ada = first_release::Customer {
            name: "Ada Lovelace".to_owned(),
            city: "London".to_owned(),
        };
        db.transact(|tx| tx.put(&customers, &1, &ada))?;
    }

    // The same name, the same table.
    use second_release::{Address, Customer};
    let customers = db.table::<u64, Customer>("customers")?;
    let grace = Customer {
        first_name: "Grace".to_owned(),
        last_name: "Hopper".to_owned(),
        address: Address::Full {
            street: "Vassar Street".to_owned(),
            city: "Cambridge".to_owned(),
        },
    };
    db.transact(|tx| tx.put(&customers, &2, &grace))?;
    for (number, customer) in db.transact(|tx| tx.scan(&customers, ..))? {
        println!("{number}: {customer:?}");
    }

    // From now on the table has the new type, and the first release does not open it: it would not know new rows.
    match db.table::<u64, first_release::Customer>("customers") {
        Err(error @ Error::TableType { .. }) => println!("the first release says: {error}"),
        other => println!("{other:?}"),
    }
    db.close()?;
    Ok(())
}
