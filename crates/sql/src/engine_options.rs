//! What can be set of an engine.

/// Settings of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Threads that plan texts. They do nothing else, so that planning waits for no long statement. With two or more, one of
    /// them is kept from long texts. Default: 2.
    pub planner_threads: usize,
    /// Threads of the second pool: statements that are no row programs. Default: 2.
    pub statement_threads: usize,
    /// Statements that run on the second pool at once; others wait. Default: 64.
    pub long_statements_max: usize,
    /// Texts with a kept plan, at most. Default: 4096.
    pub text_cache_entries: usize,
    /// Bytes of the rows of one statement inside a transaction. Default: 64 MiB.
    pub result_bytes_max: usize,
    /// Rows that a transaction may read. Default: 1,000,000.
    pub scan_rows_max: usize,
    /// Bytes of keys and rows that a transaction may write. While it runs and commits, it takes up to four times as much
    /// memory. Default: 256 MiB.
    pub written_bytes_max: usize,
    /// Bytes that the plans of all statements may take together. Default: 1 GiB.
    pub plan_memory_bytes: usize,
    /// Bytes of temporary files that the plans of all statements may write together. Default: 4 GiB.
    pub plan_file_bytes: u64,
    /// Whether the server flushes a connection's log stream, or requests that, whenever its runtime parks
    /// (`Database::flush_stream`, `Database::request_flush`). Otherwise each commit requests it. Default: false.
    pub flushed_by_caller: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            planner_threads: 2,
            statement_threads: 2,
            long_statements_max: 64,
            text_cache_entries: 4096,
            result_bytes_max: 64 << 20,
            scan_rows_max: 1_000_000,
            written_bytes_max: 256 << 20,
            plan_memory_bytes: 1 << 30,
            plan_file_bytes: 4 << 30,
            flushed_by_caller: false,
        }
    }
}
