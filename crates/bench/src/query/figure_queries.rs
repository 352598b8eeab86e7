//! The paper's query, prepared once and run for another command: the points of figures.

use std::path::Path;

use namiki_exec::plan::stored;
use namiki_platform::machine::Machine;

use super::made_tables::make_tables;
use super::query_case::{Beside, JoinKind, QueryCase, plan_of};
use super::query_session::{Execution, QuerySession};
use super::result_row::QueryRow;
use super::selectivity::Selectivity;
use super::tpch_directory::TpchDirectory;
use crate::args::TimedArgs;
use crate::device_choice::Device;
use crate::error::BenchError;
use crate::result_writer::number_text;
use crate::run_folder::{Place, Scratch};

/// The parameters of figures.
pub(crate) struct FigureSetup<'a> {
    /// Tables that `namiki load tpch` created; without it, small ones are made.
    pub(crate) tpch: Option<&'a Path>,
    /// The scale of the tables that are made.
    pub(crate) scale: f64,
    /// Approximate number of customers that the query selects.
    pub(crate) customers: u64,
    pub(crate) device: Device,
    pub(crate) cache_bytes: usize,
    pub(crate) timed: TimedArgs,
}

/// The prepared query with its tables.
pub(crate) struct FigureQueries {
    session: QuerySession,
    case: QueryCase,
    device: Device,
    timed: TimedArgs,
    selectivity: Selectivity,
    // Dropped after the files that are open in it.
    _made: Option<Scratch>,
}

impl FigureQueries {
    /// Makes the tables if none are given, and computes the expected answer.
    pub(crate) fn prepare(setup: FigureSetup<'_>, place: &Place) -> Result<Self, BenchError> {
        let plan = plan_of(stored::PAPER)?;
        let made = match setup.tpch {
            Some(_) => None,
            None => {
                let made = place.scratch()?;
                let names = plan.tables().into_iter().map(str::to_owned).collect();
                make_tables(made.path(), &names, setup.scale)?;
                Some(made)
            }
        };
        let dir = setup.tpch.or(made.as_ref().map(Scratch::path));
        let dir = dir.unwrap_or(place.path());
        let directory = TpchDirectory::open(dir, &setup.device)?;
        let customers = directory.rows_in("customer");
        let selectivity = Selectivity::taking(setup.customers, customers);
        let mut session = QuerySession::new(directory, setup.cache_bytes, setup.timed.pin);
        let seed = setup.timed.seed;
        let case = QueryCase::new(stored::PAPER, Some(selectivity), &mut session, seed)?;
        Ok(Self {
            session,
            case,
            device: setup.device,
            timed: setup.timed,
            selectivity,
            _made: made,
        })
    }

    /// A description of the query's size.
    pub(crate) fn describe(&self) -> String {
        let customers = self.session.directory.rows_in("customer") as f64;
        format!(
            "{} % of {} customers",
            number_text(self.selectivity.part() * 100.0),
            number_text(customers)
        )
    }

    /// Runs the query once and checks the answer.
    pub(crate) fn run<'m>(
        &mut self,
        how: Execution,
        machine: &'m Machine,
        round: u32,
    ) -> Result<QueryRow<'m>, BenchError> {
        let beside = Beside {
            timed: &self.timed,
            device: &self.device,
            batch: None,
            limit: false,
        };
        let join = JoinKind::NestedLoop;
        self.case
            .run(&mut self.session, how, join, &beside, machine, round)
    }
}
