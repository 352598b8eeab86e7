//! One self-contained page over all figures: how many sentences hold, then each figure's chart,
//! verdicts and reasons, and the command that repeats it.
//!
//! Each chart is there twice, for wide screens and paper and for phones: a scaled one would be too
//! small to read.

use std::fmt::Write;

use super::catalogue;
use super::claim::Claim;
use super::definition::Figure;
use super::judge::{Judged, Verdict};
use super::medians::short;
use super::outcome::{Outcome, counts_text, leaning};
use super::svg_chart::{self, NARROW, WIDE, escaped};

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2126;--soft:#5c6670;--rule:#dfe3e8;--card:#f6f7f9;\
--holds:#0f7a5a;--not:#b4380a;--undecided:#8a6100;--untested:#6b7480}\
@media screen and (prefers-color-scheme:dark){:root{--ground:#15191d;--ink:#e8ecf0;--soft:#9aa5b0;--rule:#2f363d;\
--card:#1d2227;--holds:#4fd1a5;--not:#ff9a66;--undecided:#e3b341;--untested:#9aa5b0}}\
body{margin:0 auto;padding:2rem 1.25rem 5rem;max-width:64rem;background:var(--ground);color:var(--ink);\
font:16px/1.55 system-ui,'Helvetica Neue',Arial,'Noto Sans CJK JP',sans-serif;overflow-wrap:break-word}\
h1{font-size:1.8rem;line-height:1.25;margin:0 0 .3rem}h2{font-size:1.25rem;line-height:1.35;margin:3.2rem 0 .8rem;\
padding-top:1rem;border-top:1px solid var(--rule)}\
.soft,dt{color:var(--soft)}a{color:inherit}svg.chart{max-width:100%;height:auto;display:block}.narrow{display:none}\
table{border-collapse:collapse;width:100%;font-size:.93rem}th,td{text-align:left;vertical-align:top;\
padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--rule)}th{line-height:1.25;vertical-align:bottom}\
td.n,th.n{text-align:right;padding-left:.7rem;padding-right:0;font-variant-numeric:tabular-nums}\
tr.paper td{font-weight:600;padding-top:.9rem}tr.all td{font-weight:600;border-bottom:0}td.name{white-space:nowrap}\
.claim{margin:.8rem 0;padding:.7rem .95rem;background:var(--card);border-left:4px solid var(--untested)}\
.claim p{margin:.2rem 0}.claim.holds{border-color:var(--holds)}.claim.not{border-color:var(--not)}\
.claim.undecided{border-color:var(--undecided)}\
.verdict{font-weight:600;color:var(--untested)}.holds .verdict{color:var(--holds)}.not .verdict{color:var(--not)}\
.undecided .verdict{color:var(--undecided)}\
.banner{margin:1rem 0;padding:.6rem .95rem;border:2px solid var(--undecided)}\
.found{font-variant-numeric:tabular-nums;font-size:.92rem}.papers{font-weight:600;font-size:.92rem}\
details{font-size:.88rem;color:var(--soft)}\
pre{background:var(--card);padding:.6rem .9rem;font-size:.88rem;white-space:pre-wrap;overflow-wrap:anywhere}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}dd{margin:0}\
@media screen and (max-width:54rem){body{padding:1.2rem 1rem 4rem}.wide{display:none}.narrow{display:block}\
.narrow svg.chart{margin:0 auto}.about{display:none}table{font-size:.85rem}h1{font-size:1.5rem}h2{font-size:1.1rem}}\
@media print{@page{margin:16mm 14mm}body{padding:0;max-width:none;font-size:10.5pt}\
.claim,pre,.banner{background:none}.claim{border:1px solid var(--rule);border-left-width:4px}\
.chart .ground{fill:none}h2{margin-top:1.6rem;break-after:avoid}\
.wide,.claim,tr,pre,dl{break-inside:avoid}a{text-decoration:none}}";

/// The CSS class of a verdict.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "not",
        Verdict::Undecided => "undecided",
        Verdict::NotTestable | Verdict::NotJudged => "untested",
    }
}

/// What a page says about the report as a whole.
pub(crate) struct Head<'a> {
    /// The command that made the page.
    pub(crate) command: &'a str,
    /// A reason to take nothing here as a result, if there is one.
    pub(crate) caution: Option<&'a str>,
    /// Figures that are pending or were not made.
    pub(crate) remaining: usize,
}

/// The page.
pub(crate) fn page(outcomes: &[Outcome], head: &Head<'_>) -> String {
    let mut page = Page(String::new());
    let of_charts = svg_chart::style();
    page.add(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>The papers' experiments, here</title>\n<style>{of_charts}{STYLE}</style>\n</head>\n<body>\n\
         <h1>The papers' experiments, here</h1>\n\
         <p class=\"soft\">Each figure was run on the machine at hand, and the sentences of its paper that are \
         named here were checked by the medians, as far as their English says. A claim that does not hold here is a \
         finding about this machine, or this program, not an error. <em>Undecided</em>: the runs of one point differ \
         by more than what the sentence compares.</p>"
    ));
    if let Some(caution) = head.caution {
        page.add(format_args!("<p class=\"banner\">{}</p>", escaped(caution)));
    }
    if let Some(first) = outcomes.first() {
        let machine = &first.circumstances.machine;
        page.add(format_args!(
            "<dl><dt>processors</dt><dd>{} × {}</dd><dt>disk</dt><dd>{}</dd><dt>system</dt><dd>{}</dd></dl>",
            machine.cores,
            escaped(&machine.cpu),
            escaped(&machine.disk),
            escaped(&machine.kernel)
        ));
    }
    page.add(format_args!("<pre>{}</pre>", escaped(head.command)));
    if head.remaining > 0 {
        page.add(format_args!(
            "<p><strong>{} figures are missing: the report did not come to its end.</strong></p>",
            head.remaining
        ));
    }
    page.summary(outcomes);
    for outcome in outcomes {
        page.figure(outcome);
    }
    page.add(format_args!("</body>\n</html>"));
    page.0
}

struct Page(String);

/// The numbers of a row, in the order of the table's verdicts.
fn numbers<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone, shown: &[Verdict]) -> String {
    let number = |verdict: &Verdict| {
        let numbers = outcomes.clone().map(|one| one.number_of(*verdict));
        match numbers.sum::<usize>() {
            0 => "<td class=\"n\"></td>".to_owned(),
            number => format!("<td class=\"n\">{number}</td>"),
        }
    };
    shown.iter().map(number).collect()
}

impl Page {
    /// Adds elements. Writing to a string does not fail.
    fn add(&mut self, elements: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(elements);
        self.0.push('\n');
    }

    /// How many sentences of each figure have each verdict. Verdicts that none has are left out.
    fn summary(&mut self, outcomes: &[Outcome]) {
        let is_given = |verdict: &Verdict| outcomes.iter().any(|one| one.number_of(*verdict) > 0);
        let shown: Vec<Verdict> = Verdict::ALL.into_iter().filter(is_given).collect();
        let heads = shown
            .iter()
            .map(|one| format!("<th class=\"n\">{}</th>", one.text()));
        let heads: String = heads.collect();
        let all = numbers(outcomes.iter(), &shown);
        self.add(format_args!(
            "<table class=\"summary\">\n<tr><th>figure</th><th class=\"about\"></th>{heads}</tr>"
        ));
        let mut paper = "";
        for figure in catalogue::figures() {
            if figure.paper != paper {
                paper = figure.paper;
                let of_paper = outcomes.iter().filter(|one| one.figure.paper == paper);
                let counts = numbers(of_paper, &shown);
                self.add(format_args!(
                    "<tr class=\"paper\"><td class=\"name\">{paper}</td><td class=\"about\"></td>{counts}</tr>"
                ));
            }
            self.row(figure, outcomes, &shown);
        }
        self.add(format_args!(
            "<tr class=\"all\"><td>all sentences</td><td class=\"about\"></td>{all}</tr>\n</table>"
        ));
    }

    fn row(&mut self, figure: &Figure, outcomes: &[Outcome], shown: &[Verdict]) {
        let mut made = outcomes.iter();
        let (number, title) = (figure.number, escaped(figure.title));
        let Some(outcome) = made.find(|one| std::ptr::eq(one.figure, figure)) else {
            let columns = shown.len();
            self.add(format_args!(
                "<tr class=\"soft\"><td>{number}</td><td class=\"about\">{title}</td>\
                 <td class=\"n\" colspan=\"{columns}\">not run</td></tr>"
            ));
            return;
        };
        let counts = numbers(std::iter::once(outcome), shown);
        self.add(format_args!(
            "<tr><td><a href=\"#{}\">{number}</a></td><td class=\"about\">{title}</td>{counts}</tr>",
            figure.slug()
        ));
    }

    fn figure(&mut self, outcome: &Outcome) {
        let (figure, slug) = (outcome.figure, outcome.figure.slug());
        self.add(format_args!(
            "<section>\n<h2 id=\"{slug}\">{}, figure {} (§{}): {}</h2>",
            figure.paper,
            figure.number,
            figure.section,
            escaped(figure.title)
        ));
        let chart = outcome.chart();
        let (wide, narrow) = (chart.element(WIDE), chart.element(NARROW));
        self.add(format_args!(
            "<div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div>"
        ));
        for (_, chart) in outcome.charts_beside() {
            let (wide, narrow) = (chart.element(WIDE), chart.element(NARROW));
            self.add(format_args!(
                "<div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div>"
            ));
        }
        if figure.claims.is_empty() {
            self.add(format_args!(
                "<p class=\"soft\">The paper states no result by this figure alone.</p>"
            ));
        }
        for (claim, judged) in &outcome.judged {
            self.claim(outcome, claim, judged);
        }
        for note in outcome.notes() {
            self.add(format_args!("<p class=\"soft\">{}</p>", escaped(&note)));
        }
        self.points(outcome);
        self.add(format_args!(
            "<p><a href=\"{slug}.csv\">all runs</a> · <a href=\"{slug}.json\">points and claims</a> · \
             <a href=\"{slug}.svg\">chart</a></p>\n<pre>{}</pre>\n</section>",
            escaped(&outcome.circumstances.command)
        ));
    }

    /// The numbers of the chart, and where another report is expected to have them.
    fn points(&mut self, outcome: &Outcome) {
        self.add(format_args!(
            "<details><summary>all numbers</summary>\n<table><tr><th>line</th><th class=\"n\">{}</th>\
             <th class=\"n\">median</th><th class=\"n\">runs</th><th class=\"n\">expected of another report</th></tr>",
            outcome.points.flag()
        ));
        for &line in outcome.points.lines() {
            let expected = outcome.expected_intervals(line);
            for place in outcome.points.threads() {
                let Some(spread) = outcome.points.get(line, place) else {
                    continue;
                };
                let range =
                    |(low, high): &(f64, f64)| format!("{} to {}", short(*low), short(*high));
                self.add(format_args!(
                    "<tr><td>{}</td><td class=\"n\">{place}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                     <td class=\"n\">{}</td></tr>",
                    escaped(line),
                    short(spread.median),
                    range(&(spread.low, spread.high)),
                    expected.get(&place).map(range).unwrap_or_default()
                ));
            }
        }
        self.add(format_args!("</table></details>"));
    }

    fn claim(&mut self, outcome: &Outcome, claim: &Claim, judged: &Judged) {
        self.add(format_args!(
            "<div class=\"claim {}\">",
            class(judged.verdict)
        ));
        if claim.is_ours() {
            self.add(format_args!("<p class=\"soft\">not of the paper</p>"));
        } else {
            self.add(format_args!(
                "<p lang=\"ja\">§{} 「{}」</p>",
                claim.section,
                escaped(claim.sentence)
            ));
        }
        self.add(format_args!(
            "<p>{}</p><p class=\"found\"><span class=\"verdict\">{}</span>{}: {}</p>",
            escaped(claim.english),
            judged.verdict.text(),
            leaning(judged),
            escaped(&judged.found)
        ));
        for number in outcome.paper_numbers(claim) {
            let text = escaped(&number.text());
            self.add(format_args!("<p class=\"papers\">{text}</p>"));
        }
        if let Some(why_not) = outcome.why_not(claim, judged) {
            self.add(format_args!("<p>{}</p>", escaped(&why_not)));
        }
        let beside = outcome.beside(claim, judged);
        if !beside.is_empty() {
            self.add(format_args!("<details><summary>counted beside</summary>"));
            for (line, counts) in beside {
                let counts = counts_text(&counts);
                self.add(format_args!("<p>{}: {counts}</p>", escaped(line)));
            }
            self.add(format_args!("</details>"));
        }
        self.add(format_args!("</div>"));
    }
}
