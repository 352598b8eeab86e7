//! The verdicts of a report as Markdown: one table for each paper, and one of all figures.

use std::fmt::Write;

use super::catalogue;
use super::judge::Verdict;
use super::outcome::{Outcome, leaning};

/// A page with all tables.
pub(crate) fn page(outcomes: &[Outcome], command: &str) -> String {
    let mut page = String::from("# Verdicts\n");
    // Writing to a string does not fail.
    if let Some(first) = outcomes.first() {
        let machine = &first.circumstances.machine;
        let _ = write!(
            page,
            "\n{} × {}; {}; {}.\n",
            machine.cores, machine.cpu, machine.disk, machine.kernel
        );
    }
    let _ = write!(page, "\n```text\n{command}\n```\n");
    page.push_str(&figures(outcomes));
    let mut paper = "";
    for outcome in outcomes.iter().filter(|one| !one.judged.is_empty()) {
        if outcome.figure.paper != paper {
            paper = outcome.figure.paper;
            let _ = write!(
                page,
                "\n## {paper}\n\n| command | sentence | verdict | numbers |\n|---|---|---|---|\n"
            );
        }
        sentences(outcome, &mut page);
    }
    page
}

/// All figures, with how many of their sentences have each verdict.
fn figures(outcomes: &[Outcome]) -> String {
    let heads = Verdict::ALL.map(Verdict::text).join(" | ");
    let mut table = format!(
        "\n| figure | {heads} |\n|---{}|\n",
        "|---".repeat(Verdict::ALL.len())
    );
    for figure in catalogue::figures() {
        let mut made = outcomes.iter();
        let found = made.find(|one| std::ptr::eq(one.figure, figure));
        let cells = found.map_or("not run |".to_owned(), |one| numbers(&[one]));
        let _ = writeln!(table, "| {} {} | {cells}", figure.paper, figure.number);
    }
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let _ = writeln!(table, "| all | {}", numbers(&all));
    table
}

fn numbers(outcomes: &[&Outcome]) -> String {
    let cells = Verdict::ALL.map(|verdict| {
        let numbers = outcomes.iter().map(|one| one.number_of(verdict));
        match numbers.sum::<usize>() {
            0 => " |".to_owned(),
            number => format!("{number} |"),
        }
    });
    cells.join(" ")
}

fn sentences(outcome: &Outcome, page: &mut String) {
    for (claim, judged) in &outcome.judged {
        let papers = outcome.paper_numbers(claim);
        let papers: String = papers.iter().map(|it| format!("; {}", it.text())).collect();
        let ours = if claim.is_ours() {
            " (not of the paper)"
        } else {
            ""
        };
        let _ = writeln!(
            page,
            "| `figure {} {}` | {}{ours} | {}{} | {}{} |",
            outcome.figure.paper,
            outcome.figure.number,
            cell(claim.english),
            judged.verdict.text(),
            leaning(judged),
            cell(&judged.found),
            cell(&papers)
        );
    }
}

/// A text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
