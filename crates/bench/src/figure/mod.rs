//! The papers' experiments again, and what the papers say of them: commands `figure` and `report` ([`command`]).
//!
//! A figure is data ([`definition`], [`catalogue`]): its lines are measured by the commands that measure such
//! things ([`experiment_runner`]), its medians ([`medians`]) are held against the paper's sentences ([`claim`],
//! [`judge`]), and both are drawn and written down ([`output`], [`svg_chart`], [`html_page`]).

mod catalogue;
mod claim;
mod cluster_points;
mod command;
mod counted_explanation;
mod definition;
mod experiment_runner;
mod html_page;
mod judge;
mod medians;
mod output;
mod query_points;
mod run_row;
mod svg_chart;

pub(crate) use self::command::{FigureArgs, ReportArgs, report, run};
