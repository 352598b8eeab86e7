//! One self-contained page over all figures: charts, verdicts, the machine, and the command that
//! repeats each one.

use std::fmt::Write;

use super::judge::Verdict;
use super::outcome::{Outcome, counts_text};
use super::svg_chart::escaped;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1c2126;--soft:#5c6670;--rule:#dfe3e8;--card:#f6f7f9;\
--holds:#0f7a5a;--not:#b4380a;--untested:#6b7480}\
@media(prefers-color-scheme:dark){:root{--ground:#15191d;--ink:#e8ecf0;--soft:#9aa5b0;--rule:#2f363d;\
--card:#1d2227;--holds:#4fd1a5;--not:#ff9a66;--untested:#9aa5b0}}\
body{margin:0 auto;padding:2rem 1.25rem 5rem;max-width:64rem;background:var(--ground);color:var(--ink);\
font:16px/1.55 system-ui,'Helvetica Neue',Arial,'Noto Sans CJK JP',sans-serif}\
h1{font-size:1.8rem;margin:0 0 .3rem}h2{font-size:1.25rem;margin:3.2rem 0 .8rem;padding-top:1rem;\
border-top:1px solid var(--rule)}\
.soft,dt{color:var(--soft)}a{color:inherit}svg.chart{max-width:100%;height:auto;display:block}\
table{border-collapse:collapse;width:100%;font-size:.93rem}th,td{text-align:left;padding:.3rem .7rem .3rem 0;\
border-bottom:1px solid var(--rule)}td.n,th.n{text-align:right}\
.claim{margin:.8rem 0;padding:.7rem .95rem;background:var(--card);border-left:4px solid var(--untested)}\
.claim p{margin:.2rem 0}.claim.holds{border-color:var(--holds)}.claim.not{border-color:var(--not)}\
.verdict{font-weight:600;color:var(--untested)}.holds .verdict{color:var(--holds)}.not .verdict{color:var(--not)}\
.found{font-variant-numeric:tabular-nums;font-size:.92rem}details{font-size:.88rem;color:var(--soft)}\
pre{background:var(--card);padding:.6rem .9rem;overflow-x:auto;font-size:.88rem}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}dd{margin:0}";

/// The CSS class of a verdict.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "not",
        Verdict::NotTestable | Verdict::NotJudged => "untested",
    }
}

/// The page. `remaining` figures are pending or were not made.
pub(crate) fn page(outcomes: &[Outcome], remaining: usize, command: &str) -> String {
    let mut page = Page(String::new());
    page.add(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>The papers' experiments, here</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>The papers' experiments, here</h1>\n\
         <p class=\"soft\">Each figure was run on the machine at hand, and the sentences of its paper that are \
         named here were checked by the medians, as far as their English says. A claim that does not hold here is a finding about this machine, or this \
         program, not an error.</p>"
    ));
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
    page.add(format_args!("<pre>{}</pre>", escaped(command)));
    if remaining > 0 {
        page.add(format_args!(
            "<p><strong>{remaining} figures are missing: the report did not come to its end.</strong></p>"
        ));
    }
    page.contents(outcomes);
    for outcome in outcomes {
        page.figure(outcome);
    }
    page.add(format_args!("</body>\n</html>"));
    page.0
}

struct Page(String);

impl Page {
    /// Adds elements. Writing to a string does not fail.
    fn add(&mut self, elements: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(elements);
        self.0.push('\n');
    }

    fn contents(&mut self, outcomes: &[Outcome]) {
        self.add(format_args!(
            "<table>\n<tr><th>figure</th><th></th><th class=\"n\">holds</th>\
             <th class=\"n\">does not hold here</th><th class=\"n\">not testable here</th>\
             <th class=\"n\">not judged</th></tr>"
        ));
        for outcome in outcomes {
            let count = |verdict| {
                let judged = outcome.judged.iter();
                judged.filter(|(_, one)| one.verdict == verdict).count()
            };
            let (figure, slug) = (outcome.figure, outcome.figure.slug());
            self.add(format_args!(
                "<tr><td><a href=\"#{slug}\">{} {}</a></td><td>{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                figure.paper,
                figure.number,
                escaped(figure.title),
                count(Verdict::Holds),
                count(Verdict::DoesNotHold),
                count(Verdict::NotTestable),
                count(Verdict::NotJudged)
            ));
        }
        self.add(format_args!("</table>"));
    }

    fn figure(&mut self, outcome: &Outcome) {
        let (figure, slug) = (outcome.figure, outcome.figure.slug());
        self.add(format_args!(
            "<h2 id=\"{slug}\">{}, figure {} (§{}): {}</h2>",
            figure.paper,
            figure.number,
            figure.section,
            escaped(figure.title)
        ));
        self.add(format_args!("{}", outcome.chart().svg()));
        if figure.claims.is_empty() {
            self.add(format_args!(
                "<p class=\"soft\">The paper states no result by this figure alone.</p>"
            ));
        }
        for (claim, judged) in &outcome.judged {
            self.add(format_args!(
                "<div class=\"claim {}\"><p lang=\"ja\">§{} 「{}」</p><p>{}</p>\
                 <p class=\"found\"><span class=\"verdict\">{}</span> {}{}</p>",
                class(judged.verdict),
                claim.section,
                escaped(claim.sentence),
                escaped(claim.english),
                judged.verdict.text(),
                escaped(&judged.found),
                if judged.within_spread() {
                    " (by less than the runs differ)"
                } else {
                    ""
                }
            ));
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
        for note in figure.notes {
            self.add(format_args!("<p class=\"soft\">{}</p>", escaped(note)));
        }
        self.add(format_args!(
            "<p><a href=\"{slug}.csv\">all runs</a> · <a href=\"{slug}.json\">points and claims</a></p>\
             <pre>{}</pre>",
            escaped(&outcome.circumstances.command)
        ));
    }
}
