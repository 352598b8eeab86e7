//! SQL over a Namiki database.
