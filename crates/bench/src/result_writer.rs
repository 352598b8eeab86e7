//! The only writer of results: a table for readers, or JSON lines.
//!
//! A row defines its JSON (by `serde`, in the order of the contract) and its cells. A cell is a
//! parameter ([`Cell::Key`]) or a measured value ([`Cell::Measure`]). Rows with the same keys are
//! repetitions, and the table ends with their medians.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use serde::Serialize;

use crate::args::Format;
use crate::error::BenchError;

/// A result.
pub(crate) trait Row: Serialize {
    /// The cells of the table, each with its column's heading.
    fn cells(&self) -> Vec<(&'static str, Cell)>;
}

/// One cell of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A parameter.
    Key(String),
    /// A measured value, if it was measured.
    Measure(Option<f64>),
}

impl Cell {
    /// Creates a parameter cell.
    pub(crate) fn key(value: impl ToString) -> Self {
        Self::Key(value.to_string())
    }

    /// Creates a cell for a measured value.
    pub(crate) fn measure(value: impl Into<Option<f64>>) -> Self {
        Self::Measure(value.into())
    }

    /// Creates a cell for a counted value.
    pub(crate) fn count(value: impl Into<Option<u64>>) -> Self {
        Self::Measure(value.into().map(|count| count as f64))
    }

    /// Creates a cell for bytes, in megabytes.
    pub(crate) fn megabytes(value: impl Into<Option<u64>>) -> Self {
        Self::Measure(value.into().map(|bytes| bytes as f64 / 1e6))
    }

    /// Whether it has no value.
    fn is_empty(&self) -> bool {
        match self {
            Self::Key(text) => text == "-",
            Self::Measure(number) => number.is_none(),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Key(text) => text.clone(),
            Self::Measure(None) => "-".to_owned(),
            Self::Measure(Some(number)) => number_text(*number),
        }
    }
}

/// Writes rows of one kind to standard output.
pub(crate) struct Report<W = io::Stdout> {
    out: W,
    format: Format,
    widths: Vec<usize>,
    headings: Vec<&'static str>,
    /// The keys of each group in order of appearance, and the measures of its rows.
    groups: Vec<(Vec<Cell>, Vec<Vec<Cell>>)>,
    group_of: HashMap<String, usize>,
    /// Rows that wait until it is known which of their columns are empty.
    waiting: Option<Vec<Vec<(&'static str, Cell)>>>,
}

impl Report {
    /// A report on standard output.
    pub(crate) fn new(format: Format) -> Self {
        Self::to(io::stdout(), format)
    }

    /// A table on standard output, printed at its end without the columns that no row fills.
    pub(crate) fn without_empty_columns() -> Self {
        Self::at_its_end(io::stdout())
    }
}

impl<W: Write> Report<W> {
    fn to(out: W, format: Format) -> Self {
        Self {
            out,
            format,
            widths: Vec::new(),
            headings: Vec::new(),
            groups: Vec::new(),
            group_of: HashMap::new(),
            waiting: None,
        }
    }

    fn at_its_end(out: W) -> Self {
        Self {
            waiting: Some(Vec::new()),
            ..Self::to(out, Format::Table)
        }
    }

    /// Prints a row.
    pub(crate) fn row<R: Row>(&mut self, row: &R) -> Result<(), BenchError> {
        match self.format {
            Format::Json => self.json(row),
            Format::Table => self.table(row),
        }
        .map_err(BenchError::Output)
    }

    /// Ends the report. A table ends with the medians of repeated runs.
    pub(crate) fn finish(mut self) -> Result<(), BenchError> {
        self.waiting_rows()
            .and_then(|()| self.medians())
            .map_err(BenchError::Output)
    }

    fn json<R: Row>(&mut self, row: &R) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, row)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn table<R: Row>(&mut self, row: &R) -> io::Result<()> {
        let cells = row.cells();
        if let Some(waiting) = &mut self.waiting {
            waiting.push(cells);
            return Ok(());
        }
        self.cells(cells)
    }

    /// Prints the rows that wait, without their empty columns.
    fn waiting_rows(&mut self) -> io::Result<()> {
        let rows = self.waiting.take().unwrap_or_default();
        let full: HashSet<&str> = rows
            .iter()
            .flatten()
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(heading, _)| *heading)
            .collect();
        for mut cells in rows {
            cells.retain(|(heading, _)| full.contains(heading));
            self.cells(cells)?;
        }
        Ok(())
    }

    fn cells(&mut self, cells: Vec<(&'static str, Cell)>) -> io::Result<()> {
        let (headings, cells): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        if self.widths.is_empty() {
            let columns = headings.iter().zip(&cells);
            self.widths = columns
                .map(|(heading, cell)| heading.len().max(cell.text().len()).max(7))
                .collect();
            let texts: Vec<String> = headings.iter().map(ToString::to_string).collect();
            self.headings = headings;
            self.line(&texts)?;
        }
        let texts: Vec<String> = cells.iter().map(Cell::text).collect();
        self.line(&texts)?;
        let keys: Vec<Cell> = cells
            .iter()
            .filter(|cell| matches!(cell, Cell::Key(_)))
            .cloned()
            .collect();
        let name = format!("{keys:?}");
        let group = *self.group_of.entry(name).or_insert(self.groups.len());
        if group == self.groups.len() {
            self.groups.push((keys, Vec::new()));
        }
        self.groups[group].1.push(cells);
        Ok(())
    }

    fn line(&mut self, texts: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (text, width) in texts.iter().zip(&self.widths) {
            line.push_str(&format!("{text:>width$}  "));
        }
        writeln!(self.out, "{}", line.trim_end())?;
        self.out.flush()
    }

    fn medians(&mut self) -> io::Result<()> {
        let groups = std::mem::take(&mut self.groups);
        if self.format != Format::Table || groups.iter().all(|(_, rows)| rows.len() < 2) {
            return Ok(());
        }
        writeln!(self.out, "\nmedians")?;
        for (_, rows) in &groups {
            let columns = 0..self.headings.len();
            let texts: Vec<String> = columns
                .map(|at| median_of_column(rows, at).text())
                .collect();
            self.line(&texts)?;
        }
        let first_measure = |row: &[Cell]| row.iter().position(|c| matches!(c, Cell::Measure(_)));
        if let Some(at) = groups.first().and_then(|(_, rows)| first_measure(&rows[0])) {
            writeln!(
                self.out,
                "\nspread of {}, smallest to largest",
                self.headings[at]
            )?;
            for (keys, rows) in &groups {
                let keys: Vec<String> = keys.iter().map(Cell::text).collect();
                let mut numbers = measures(rows, at);
                numbers.sort_by(f64::total_cmp);
                if let (Some(low), Some(high)) = (numbers.first(), numbers.last()) {
                    let (low, high) = (number_text(*low), number_text(*high));
                    writeln!(
                        self.out,
                        "{}: {low} to {high} in {} runs",
                        keys.join(" "),
                        rows.len()
                    )?;
                }
            }
        }
        self.out.flush()
    }
}

fn measures(rows: &[Vec<Cell>], at: usize) -> Vec<f64> {
    let numbers = rows.iter().filter_map(|row| match row[at] {
        Cell::Measure(number) => number,
        Cell::Key(_) => None,
    });
    numbers.collect()
}

fn median_of_column(rows: &[Vec<Cell>], at: usize) -> Cell {
    match &rows[0][at] {
        Cell::Key(text) => Cell::Key(text.clone()),
        Cell::Measure(_) => Cell::Measure(median(measures(rows, at))),
    }
}

/// The middle number, or the mean of the middle two; `None` without numbers.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    if numbers.len() % 2 == 1 {
        return Some(upper);
    }
    Some((numbers[numbers.len() / 2 - 1] + upper) / 2.0)
}

/// Four significant digits, with separated thousands.
pub(crate) fn number_text(number: f64) -> String {
    let size = number.abs();
    let decimals = match size {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{number:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole
        .strip_prefix('-')
        .map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Sample {
        name: &'static str,
        tps: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        flushes: Option<u64>,
    }

    impl Row for Sample {
        fn cells(&self) -> Vec<(&'static str, Cell)> {
            vec![
                ("name", Cell::key(self.name)),
                ("tps", Cell::measure(self.tps)),
                ("flushes", Cell::count(self.flushes)),
            ]
        }
    }

    fn printed(format: Format) -> String {
        let mut out = Vec::new();
        let mut report = Report::to(&mut out, format);
        for (name, tps) in [("a", 1500.0), ("b", 7.0), ("a", 2500.0), ("a", 1000.0)] {
            let flushes = None;
            report.row(&Sample { name, tps, flushes }).unwrap();
        }
        report.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_has_a_line_per_row_without_unmeasured_keys() {
        let text = printed(Format::Json);
        assert_eq!(text.lines().count(), 4);
        assert_eq!(text.lines().next(), Some(r#"{"name":"a","tps":1500.0}"#));
    }

    #[test]
    fn a_table_ends_with_medians_of_equal_keys() {
        let text = printed(Format::Table);
        let medians: Vec<&str> = text.lines().skip_while(|line| *line != "medians").collect();
        assert!(
            medians[1].contains("1,500") && medians[1].contains('-'),
            "{text}"
        );
        assert!(text.contains("a: 1,000 to 2,500 in 3 runs"), "{text}");
    }

    #[test]
    fn columns_that_no_row_fills_are_left_out() {
        let printed = |second: Option<u64>| {
            let mut out = Vec::new();
            let mut report = Report::at_its_end(&mut out);
            for flushes in [None, second] {
                let (name, tps) = ("a", 1500.0);
                report.row(&Sample { name, tps, flushes }).unwrap();
            }
            report.finish().unwrap();
            String::from_utf8(out).unwrap()
        };
        let (without, with) = (printed(None), printed(Some(7)));
        assert!(
            !without.contains("flushes") && !without.contains(" -"),
            "{without}"
        );
        assert!(
            without.contains("tps") && without.contains("1,500"),
            "{without}"
        );
        assert!(with.contains("flushes") && with.contains(" -"), "{with}");
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        for (number, text) in [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (1.234, "1.23"),
            (99.96, "100.0"),
            (1_234_567.8, "1,234,568"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn a_median_needs_numbers() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    }
}
