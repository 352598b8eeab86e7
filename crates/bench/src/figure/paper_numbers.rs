//! The numbers that a paper's text gives for a figure, beside those found here.
//!
//! A claim with a multiple or a value has the paper's number only if its sentence has it, too:
//! some values are ours.

use serde::Serialize;

use super::claim::{At, Claim, Statement};
use super::measure::Measure;
use super::medians::{Points, plain, short};

/// A number of a sentence, and what was found here.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PaperNumber {
    /// What it is of, as in "P-WAL : WAL at 16".
    of: String,
    pub(crate) paper: f64,
    /// Absent if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) here: Option<f64>,
    #[serde(skip)]
    words: String,
    /// Where the number would lie in the chart: the line, the number of threads and the value.
    #[serde(skip)]
    pub(crate) place: Option<(&'static str, u32, f64)>,
}

impl PaperNumber {
    /// Both numbers, and what they are of.
    pub(crate) fn text(&self) -> String {
        format!("{} ({})", self.words, self.of)
    }
}

/// The numbers of a claim's sentence.
pub(crate) fn paper_numbers(claim: &Claim, value: Measure, points: &Points) -> Vec<PaperNumber> {
    let in_sentence = numbers_in(claim.sentence);
    let statements = claim.statements.iter();
    let numbers = statements.filter_map(|statement| of_statement(*statement, value, points));
    let is_papers = |number: &PaperNumber| {
        let same = |other: &f64| (number.paper - other).abs() < other.abs() * 1e-9;
        in_sentence.iter().any(same)
    };
    numbers.filter(is_papers).collect()
}

fn of_statement(statement: Statement, value: Measure, points: &Points) -> Option<PaperNumber> {
    let median = |line: &str, at: u32| points.get(line, at).map(|spread| spread.median);
    match statement {
        Statement::Ratio(upper, lower, at, times) => {
            let threads = points.threads_at(at);
            let pair = threads.and_then(|at| Some((at, median(upper, at)?, median(lower, at)?)));
            Some(multiple(
                format!("{upper} : {lower}{}", place_text(at, threads)),
                times,
                pair.map(|(_, high, low)| high / low),
                pair.map(|(at, _, low)| (upper, at, low * times)),
            ))
        }
        Statement::LargestRatio(upper, lower, times) => {
            let pairs = points.threads().into_iter();
            let pairs = pairs.filter_map(|at| Some((at, median(upper, at)?, median(lower, at)?)));
            let largest =
                pairs.max_by(|one, other| (one.1 / one.2).total_cmp(&(other.1 / other.2)));
            Some(multiple(
                format!("{upper} : {lower}, at most"),
                times,
                largest.map(|(_, high, low)| high / low),
                largest.map(|(at, _, low)| (upper, at, low * times)),
            ))
        }
        Statement::RatioOfPeaks(upper, lower, times) => {
            let peak = |line: &str| {
                let at = points.threads().into_iter();
                let values = at.filter_map(|at| Some((at, median(line, at)?)));
                values.max_by(|one, other| one.1.total_cmp(&other.1))
            };
            let pair = peak(upper).zip(peak(lower));
            Some(multiple(
                format!("{upper} : {lower}, at their best"),
                times,
                pair.map(|((_, high), (_, low))| high / low),
                pair.map(|((at, _), (_, low))| (upper, at, low * times)),
            ))
        }
        Statement::About(line, at, number) => Some(simple("", line, at, number, value, points)),
        Statement::Below(line, at, number) => {
            Some(simple("less than ", line, at, number, value, points))
        }
        Statement::Over(line, at, number) => {
            Some(simple("more than ", line, at, number, value, points))
        }
        _ => None,
    }
}

fn multiple(
    of: String,
    paper: f64,
    here: Option<f64>,
    place: Option<(&'static str, u32, f64)>,
) -> PaperNumber {
    let found = here.map_or("not measured".to_owned(), |here| {
        format!("{}×", short(here))
    });
    PaperNumber {
        words: format!("paper {paper}×, here {found}"),
        of,
        paper,
        here,
        place,
    }
}

fn simple(
    bound: &str,
    line: &'static str,
    at: At,
    paper: f64,
    value: Measure,
    points: &Points,
) -> PaperNumber {
    let threads = points.threads_at(at);
    let here = threads.and_then(|at| points.get(line, at));
    let here = here.map(|spread| spread.median);
    let unit = value.unit();
    let found = here.map_or("not measured".to_owned(), |here| {
        format!("{}{unit}", short(here))
    });
    PaperNumber {
        words: format!("paper {bound}{}{unit}, here {found}", plain(paper)),
        of: format!("{line}{}", place_text(at, threads)),
        paper,
        here,
        place: threads.map(|at| (line, at, paper)),
    }
}

/// The number of threads in words: the one measured, or the one that is missing.
fn place_text(at: At, measured: Option<u32>) -> String {
    match (measured, at) {
        (Some(threads), _) => format!(" at {threads}"),
        (None, At::Threads(threads)) => format!(" at {threads}"),
        (None, At::Fewest | At::Cores | At::Most) => String::new(),
    }
}

/// The numbers in a sentence: with separated thousands, in percent, and with the units of millions
/// that the papers use.
fn numbers_in(sentence: &str) -> Vec<f64> {
    let characters: Vec<char> = sentence.chars().collect();
    let mut numbers = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        if !characters[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let from = at;
        let is_part = |at: usize| {
            let next_is_digit = characters.get(at + 1).is_some_and(char::is_ascii_digit);
            match characters.get(at) {
                Some('.' | ',') => next_is_digit,
                Some(character) => character.is_ascii_digit(),
                None => false,
            }
        };
        while is_part(at) {
            at += 1;
        }
        let digits: String = characters[from..at]
            .iter()
            .filter(|it| **it != ',')
            .collect();
        let Ok(number) = digits.parse::<f64>() else {
            continue;
        };
        numbers.push(number);
        let after: String = characters[at..].iter().take(2).collect();
        match after.trim_start().chars().next() {
            Some('M') => numbers.push(number * 1e6),
            Some('万') => numbers.push(number * 1e4),
            Some('%') => numbers.push(number / 100.0),
            _ => {}
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::figures;
    use super::super::medians::Spread;
    use super::*;

    fn points(cores: usize) -> Points {
        let point = |line, value| (line, 16, Spread::of(vec![value, value]).unwrap());
        let lines = vec!["P-WAL", "WAL"];
        Points::new(cores, lines, vec![point("P-WAL", 389e3), point("WAL", 1e5)])
    }

    fn claim(number: &'static str) -> &'static Claim {
        let claims = figures().flat_map(|figure| figure.claims);
        claims
            .into_iter()
            .find(|claim| claim.sentence.contains(number))
            .unwrap()
    }

    #[test]
    fn sentences_have_numbers_in_several_forms() {
        let sentence = "最大 10M tps 以上、約 1,600 ミリ秒、1/5 程度、70%、1000 万 tps、9.0 倍。";
        let expected = [10.0, 10e6, 1600.0, 1.0, 5.0, 70.0, 0.7, 1000.0, 10e6, 9.0];
        assert_eq!(numbers_in(sentence), expected);
        assert!(numbers_in("大きな変化はなかった").is_empty());
    }

    #[test]
    fn the_papers_multiple_stands_beside_the_measured_one() {
        let numbers = paper_numbers(claim("3.23"), Measure::Tps, &points(2));
        assert_eq!(numbers.len(), 1);
        assert_eq!(
            numbers[0].text(),
            "paper 3.23×, here 3.89× (P-WAL : WAL at 16)"
        );
        assert_eq!(numbers[0].place, Some(("P-WAL", 16, 323e3)));
        let nothing = Points::new(2, vec![], vec![]);
        let numbers = paper_numbers(claim("3.23"), Measure::Tps, &nothing);
        let expected = "paper 3.23×, here not measured (P-WAL : WAL at 16)";
        assert_eq!(numbers[0].text(), expected);
        assert_eq!((numbers[0].here, numbers[0].place), (None, None));
    }

    #[test]
    fn a_number_of_ours_is_not_the_papers() {
        // 1,250 is the paper's 1,000 with a quarter more, and 1.0 its "no great change".
        for part in ["1,000tps 程度", "大きな変化はなかった"] {
            let numbers = paper_numbers(claim(part), Measure::Tps, &points(2));
            assert!(numbers.is_empty(), "{numbers:?}");
        }
        let rtt = paper_numbers(claim("約 110 ミリ秒"), Measure::MeanRttMs, &points(2));
        assert!(rtt[0].text().starts_with("paper 110 ms, here not measured"));
    }
}
