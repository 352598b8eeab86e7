//! The commands of the program, as its user sees them.

mod backup;
mod causes;
mod check_segments;
mod command;
mod companions;
mod damage;
mod interrupts;
mod large_transactions;
mod links_and_fifos;
mod load_and_query;
mod node_directory;
mod old_directories;
mod program;
mod queries;
mod short_blocks;
mod table_journal;
mod tables;
mod transfer;
