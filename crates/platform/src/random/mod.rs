//! Seeded randomness, distributions drawn from it, and hashing.

pub mod hash;
pub mod seeded_random;
pub mod zipf;
