//! Reproduction of the papers' experiments, and tests of the papers' claims: commands `figure` and
//! `report` ([`command`]), `agreement` ([`mod@agreement`]).
//!
//! A figure is data ([`definition`], [`catalogue`]). Its lines are measured by the commands for
//! their kinds of work ([`experiment_runner`]), and its medians ([`medians`]) are compared with the
//! paper's sentences ([`claim`], [`judge`]) and its own numbers ([`paper_numbers`]). All are drawn
//! and written to files ([`outcome`], [`svg_chart`], [`html_page`], [`verdict_table`]). Two reports
//! are compared ([`mod@agreement`]) by the intervals that one has for the other
//! ([`expected_interval`]).

mod agreement;
mod catalogue;
mod claim;
mod cluster_points;
mod command;
mod cost_model;
mod counted_explanation;
mod definition;
mod expected_interval;
mod experiment_runner;
mod figure_chart;
mod html_page;
mod index_points;
mod judge;
mod making;
mod measure;
mod medians;
mod notes_of_runs;
mod outcome;
mod paper_numbers;
mod progress;
mod query_points;
mod report_plan;
mod run_row;
mod svg_chart;
mod verdict_table;
mod write_points;

pub(crate) use self::agreement::{AgreementArgs, run as agreement};
pub(crate) use self::command::{FigureArgs, ReportArgs, report, run};
