//! The suites that need the whole engine.
