//! Runs `figure` and `report` at a small size: their output and their files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value;

use crate::support::{MACHINE, assert_keys, refused, rows, run};

const POINT: &str = "kind paper figure line threads measure median low high runs counts";
const CLAIM: &str = "kind paper figure section sentence english verdict found as_claimed within_spread cores_min paper_numbers \
     beside";
const VERDICTS: &[&str] = &[
    "holds",
    "does not hold here",
    "undecided",
    "not testable here",
    "not judged",
];

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

fn figure(paper: &str, number: &str, out: &Path, more: &str) -> Vec<Value> {
    let out = text(out);
    rows(&format!(
        "figure {paper} {number} --out {out} --quick {more}"
    ))
}

fn of_kind<'a>(rows: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let found: Vec<&Value> = rows.iter().filter(|row| row["kind"] == kind).collect();
    let keys = if kind == "point" { POINT } else { CLAIM };
    for row in &found {
        assert_keys(row, &[keys, MACHINE]);
    }
    found
}

/// The number of elements with this name in the SVG, which must be XML.
fn elements(path: &Path, name: &str) -> usize {
    let svg = std::fs::read_to_string(path).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let nodes = document.descendants();
    nodes.filter(|node| node.tag_name().name() == name).count()
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_tictoc_pwal_figure_has_four_lines_and_claims() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/here");
    let rows = figure("tictoc-pwal", "7", &out, "--repeat 2");
    let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
    assert_eq!((points.len(), claims.len()), (8, 6));
    assert!(points.iter().all(|point| point["runs"] == 2));
    assert!(
        claims
            .iter()
            .all(|row| VERDICTS.contains(&row["verdict"].as_str().unwrap()))
    );
    // Every claim that does not hold, or is undecided, has a paragraph.
    for claim in &claims {
        let verdict = claim["verdict"].as_str().unwrap();
        let is_told = matches!(verdict, "does not hold here" | "undecided");
        assert_eq!(claim["why_not"].is_string(), is_told, "{claim}");
    }
    assert_eq!(elements(&out.join("tictoc-pwal-7.svg"), "polyline"), 4);

    // Two runs of four lines at two numbers of threads, interleaved.
    let runs = lines(&out.join("tictoc-pwal-7.csv"));
    assert_eq!(runs.len(), 1 + 16);
    assert!(
        runs[0].starts_with("line,threads,tasks,round,workload,"),
        "{}",
        runs[0]
    );
    let first: Vec<&str> = runs[1..5]
        .iter()
        .map(|run| run.split(',').next().unwrap())
        .collect();
    let specs = [
        "TT(NLR)+PWAL(1)",
        "TT(NLR)+PWAL(16)",
        "TT(ELR)+PWAL(1)",
        "TT(ELR)+PWAL(16)",
    ];
    assert_eq!(first, specs);
    assert!(runs[1].contains(",nvm:50ns:64,"), "{}", runs[1]);
    let failed_locks = out.join("tictoc-pwal-7.failed_locks_per_100000.svg");
    assert_eq!(elements(&failed_locks, "polyline"), 4);

    let document = std::fs::read_to_string(out.join("tictoc-pwal-7.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["points"].as_array().unwrap().len(), 8);
    assert_eq!(document["claims"].as_array().unwrap().len(), 6);
    let command = document["command"].as_str().unwrap();
    assert!(
        command.starts_with("namiki-bench figure tictoc-pwal 7 --out "),
        "{command}"
    );
    assert!(
        command.contains("--repeat 2") && command.contains("--quick"),
        "{command}"
    );
}

#[test]
fn a_pwal_figure_writes_the_papers_records_to_disk() {
    let dir = tempfile::tempdir().unwrap();
    let on = format!("--threads 1,3 --dir {}", text(dir.path()));
    let rows = figure("pwal", "7", dir.path(), &on);
    let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
    assert_eq!((points.len(), claims.len()), (6, 5));
    let line = |name: &str| points.iter().find(|row| row["line"] == name).unwrap();
    // BEGIN, UPDATE and END of 512 bytes each, framed in whole blocks.
    for name in ["P-WAL", "WAL"] {
        let bytes = line(name)["counts"]["wal_bytes"].as_f64().unwrap();
        assert!(bytes >= 1000.0 * 1536.0, "{name}: {bytes}");
        assert!(line(name)["counts"]["cas_misses"].is_number(), "{name}");
    }
    let writes = &line("log writes only")["counts"];
    assert_eq!(writes["flushes"], 63.0);
    assert!(writes.get("aborted").is_none(), "{writes}");
    assert_eq!(elements(&dir.path().join("pwal-7.svg"), "polyline"), 3);
    // 16 threads were not measured.
    let at_16 = claims
        .iter()
        .find(|claim| claim["found"] == "needs --threads 16")
        .unwrap();
    assert_eq!(at_16["verdict"], "not testable here");
    // The run leaves exactly the requested files behind.
    let mut left: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["pwal-7.csv", "pwal-7.json", "pwal-7.svg"]);
}

/// Paper: pwal §3.2, figure 2.
#[test]
fn pwal_2_lies_over_the_bytes_of_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("device");
    let raw = format!("--device raw:{} --raw-mb 16", text(&file));
    for device in ["--device fdatasync", raw.as_str()] {
        let more = format!("--repeat 2 --bytes 8192,512 {device}");
        let rows = figure("pwal", "2", dir.path(), &more);
        let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
        assert_eq!((points.len(), claims.len()), (4 * 2, 4));
        for point in points {
            assert_eq!(point["measure"], "megabytes_per_second");
            assert_eq!(point["counts"]["operations"], 64.0);
            assert!(point["median"].as_f64() > Some(0.0), "{point}");
            let line = point["line"].as_str().unwrap();
            let writers = if line.ends_with("16 writers") { 16 } else { 1 };
            assert_eq!(point["threads"], writers, "{point}");
            assert!(matches!(point["write_bytes"].as_u64(), Some(512 | 8192)));
        }
        for claim in claims {
            assert_ne!(claim["verdict"], "not testable here", "{claim}");
        }
        assert_eq!(elements(&dir.path().join("pwal-2.svg"), "polyline"), 4);
    }
    let out = text(dir.path());
    for (more, why) in [
        (
            "--device slow:8x1ms",
            "pwal-2 does not run on --device slow:8x1ms",
        ),
        ("--bytes 100", "this device's blocks have"),
    ] {
        refused(&format!("figure pwal 2 --out {out} --quick {more}"), 2, why);
    }
    // 16 parts of one MiB have no block of two; the one part of one writer has.
    let small = format!("--device raw:{} --raw-mb 16 --bytes 2097152", text(&file));
    let output = run(&format!("figure pwal 2 --out {out} --quick {small}"));
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("raise --raw-mb"), "{errors}");
}

#[test]
fn claims_are_printed_for_people() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(&format!(
        "figure tictoc-pwal 13 --out {} --quick",
        text(dir.path())
    ));
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "TT(ELR)+PWAL(16)",
        "§4.2.4 「",
        "aborts more than the others",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    if cores < 64 {
        assert!(
            text.contains("not testable here (needs >= 64 cores)"),
            "{text}"
        );
    }
}

#[test]
fn the_list_names_every_figure() {
    let listed = rows("figure --list");
    let numbers = |paper: &str| -> Vec<u64> {
        let of_paper = listed.iter().filter(|row| row["paper"] == paper);
        of_paper
            .map(|row| row["figure"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(numbers("tictoc-pwal"), [3, 6, 7, 8, 9, 10, 11, 12, 13]);
    assert_eq!(numbers("pwal"), [2, 6, 7, 8, 9, 10, 11]);
    assert_eq!(numbers("oode"), [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(numbers("raft-pwal"), [2, 3, 4, 5, 6]);
    assert_eq!(numbers("bwtree"), [12, 13, 14, 15, 16, 17, 18, 19, 20]);
    let of_bwtree = listed.iter().filter(|row| row["paper"] == "bwtree");
    let of_bwtree: Vec<Value> = of_bwtree.cloned().collect();
    assert_eq!(rows("figure bwtree"), of_bwtree);
    for row in &listed {
        assert_keys(row, &["section title claims"]);
    }
}

#[test]
fn what_is_no_figure_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = text(dir.path());
    for (args, word) in [
        (format!("figure tictoc-pwal 5 --out {out}"), "tictoc-pwal-6"),
        (format!("figure silo 6 --out {out}"), "pwal-11"),
        ("figure pwal 6".to_owned(), "--out"),
        ("figure silo".to_owned(), "no figure is of silo"),
        (format!("figure pwal 6 --out {out} --device tape"), "nvm"),
    ] {
        refused(&args, 2, word);
    }
}

/// The paper's setting is a device that all logs share. Here it is a file, which each run creates
/// and removes.
#[test]
fn pwal_figures_run_on_a_raw_file() {
    for number in ["6", "7"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("device");
        let shared = format!("--device raw:{} --raw-mb 64 --threads 1,2", text(&file));
        let rows = figure("pwal", number, dir.path(), &shared);
        let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
        assert_eq!(points.len(), 6);
        assert!(points.iter().all(|point| point["counts"]["flushes"] != 0.0));
        assert!(!file.exists(), "it was made here, so it is removed");
        let verdicts: Vec<&str> = claims
            .iter()
            .map(|claim| claim["verdict"].as_str().unwrap())
            .collect();
        assert!(verdicts.contains(&"not judged"), "{verdicts:?}");
        assert!(!verdicts.contains(&"holds"), "{verdicts:?}");
        assert!(!verdicts.contains(&"does not hold here"), "{verdicts:?}");
    }
}

/// Paper: oode §3, figures 5 and 9.
#[test]
fn an_oode_figure_lies_over_relative_reads_per_second() {
    let dir = tempfile::tempdir().unwrap();
    for (number, tasks, points_of_lines) in [("5", "16", 1 + 5), ("9", "1,2,4,8,16", 1 + 5 + 5)] {
        let more = format!("--repeat 2 --threads 1,2,3,4,5 --tasks {tasks}");
        let rows = figure("oode", number, dir.path(), &more);
        let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
        assert_eq!((points.len(), claims.len()), (points_of_lines, 3));
        for point in points {
            assert_eq!(point["measure"], "cpu_percent");
            assert_keys(point, &["tasks relative_iops counts.reads counts.iops"]);
            let is_ordered = point["line"] == "ordered execution";
            assert_eq!(point["relative_iops"] == 1.0, is_ordered, "{point}");
        }
        for claim in claims {
            assert_ne!(claim["verdict"], "not testable here", "{claim}");
        }
        let runs = lines(&dir.path().join(format!("oode-{number}.csv")));
        assert_eq!(runs.len(), 1 + 2 * points_of_lines);
        // The lines of the figure with at least two points, and their fits.
        let polylines = elements(&dir.path().join(format!("oode-{number}.svg")), "polyline");
        assert!(
            polylines >= if number == "5" { 2 } else { 4 },
            "{polylines}"
        );
    }
}

/// Paper: oode §3.1, figures 2 and 4.
#[test]
fn an_oode_figure_runs_on_emulated_drives() {
    let dir = tempfile::tempdir().unwrap();
    let more = "--device slow:16x1ms --repeat 2";
    let rows = figure("oode", "2", dir.path(), more);
    let points = of_kind(&rows, "point");
    let runs = |line: &str| {
        let of_line = points.iter().filter(|point| point["line"] == line);
        of_line
            .map(|point| point["runs"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(runs("ordered execution"), [1], "it takes long");
    assert_eq!(runs("out of order"), [2, 2]);
    let faster = of_kind(&rows, "claim")[0];
    assert_eq!(faster["as_claimed"], true, "{faster}");
    let four = figure("oode", "4", dir.path(), more);
    let cores = std::thread::available_parallelism().unwrap().get();
    let claims = of_kind(&four, "claim");
    if cores < 128 {
        let found = claims[1]["found"].as_str().unwrap();
        assert!(found.starts_with("needs >= 128 cores; here: "), "{found}");
    }
    let out = text(dir.path());
    for (args, why) in [
        (
            format!("figure oode 2 --out {out} --device null"),
            "oode-2 does not run on --device null",
        ),
        (
            format!("report --out {out} --skip silo"),
            "no figure is of silo",
        ),
        (
            format!("figure raft-pwal 4 --out {out} --workers 3"),
            "raft-pwal-4 has no line for these numbers",
        ),
    ] {
        refused(&args, 2, why);
    }
}

/// Paper: bwtree §5.3.1, figures 12 to 15.
#[test]
fn a_bwtree_figure_of_latencies_lies_over_percentiles() {
    let dir = tempfile::tempdir().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    for (number, lines_there, claims_there) in [("12", 6, 2), ("13", 12, 2), ("15", 6, 2)] {
        // The threads are the paper's, whatever is asked for.
        let more = "--repeat 2 --threads 3 --records 2000";
        let rows = figure("bwtree", number, dir.path(), more);
        let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
        assert_eq!(
            (points.len(), claims.len()),
            (lines_there * 21, claims_there)
        );
        for point in points {
            assert_eq!(point["measure"], "latency_ns");
            assert!(point["percentile"].is_number(), "{point}");
            let line = point["line"].as_str().unwrap();
            let threads = if line.ends_with(", 1 thread") { 1 } else { 112 };
            assert_eq!(point["threads"], threads, "{point}");
            assert_keys(point, &["counts.operations counts.consolidations"]);
        }
        for claim in claims {
            let is_tested = number == "12" || cores >= 112;
            assert_eq!(
                claim["verdict"] != "not testable here",
                is_tested,
                "{claim}"
            );
        }
        let runs = lines(&dir.path().join(format!("bwtree-{number}.csv")));
        assert_eq!(runs.len(), 1 + 2 * lines_there * 21);
        let polylines = elements(&dir.path().join(format!("bwtree-{number}.svg")), "polyline");
        assert_eq!(polylines, lines_there);
    }
}

/// Paper: bwtree §5.3.2, figures 16 to 18.
#[test]
fn a_bwtree_figure_of_throughput_is_over_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mixes = [
        ("16", "write=100", 6),
        ("17", "read=50,write=50", 3),
        ("18", "read=100", 4),
    ];
    for (number, mix, claims_there) in mixes {
        let rows = figure("bwtree", number, dir.path(), "--repeat 2 --records 2000");
        let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
        assert_eq!((points.len(), claims.len()), (6 * 2, claims_there));
        for point in points {
            assert_eq!(point["measure"], "operations_per_second");
            assert!(point["median"].as_f64() > Some(0.0), "{point}");
        }
        let csv = std::fs::read_to_string(dir.path().join(format!("bwtree-{number}.csv")));
        assert!(csv.unwrap().contains(mix));
    }
    // Keys of other lengths are drawn, and decide nothing.
    let more = "--repeat 2 --records 2000 --key-bytes 32";
    let rows = figure("bwtree", "18", dir.path(), more);
    assert_eq!(of_kind(&rows, "point").len(), 6 * 2);
    for claim in of_kind(&rows, "claim") {
        assert_eq!(claim["verdict"], "not testable here");
        assert_eq!(claim["found"], "needs --key-bytes 8");
    }
    let on_disk = format!("figure bwtree 18 --out {} --device file", text(dir.path()));
    refused(&on_disk, 2, "bwtree-18 does not run on --device file");
}

/// Paper: bwtree §5.4, figures 19 and 20.
#[test]
fn the_proposals_of_bwtree_are_drawn_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let (few, skewed) = ("8 keys of 8 bytes", "10000 keys of 8 bytes drawn by");
    let figures = [
        (
            "19",
            "operations_per_second",
            3,
            few,
            "bwtree-paper-inchain",
        ),
        (
            "20",
            "deltas_per_operation",
            2,
            skewed,
            "bwtree-paper-splithead",
        ),
    ];
    for (number, measure, claims_there, keys, after) in figures {
        let rows = figure("bwtree", number, dir.path(), "--repeat 2");
        let (points, claims) = (of_kind(&rows, "point"), of_kind(&rows, "claim"));
        assert_eq!((points.len(), claims.len()), (2 * 2, claims_there));
        for point in points {
            assert_eq!(point["measure"], measure);
            let counts = "counts.consolidations_failed counts.delta_visits";
            assert_keys(point, &[counts]);
        }
        for claim in claims {
            assert_ne!(claim["verdict"], "not testable here", "{claim}");
        }
        let file = |ending| dir.path().join(format!("bwtree-{number}.{ending}"));
        let csv = std::fs::read_to_string(file("csv")).unwrap();
        assert!(csv.contains(",bwtree-paper,") && csv.contains(&format!(",{after},")));
        let chart = std::fs::read_to_string(file("svg")).unwrap();
        assert!(chart.contains(keys), "{chart}");
    }
}

/// A report agrees with itself, and not with one whose medians are others.
#[test]
fn reports_agree_where_their_points_lie_within_the_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    figure("tictoc-pwal", "7", &first, "--repeat 2");
    std::fs::create_dir(&second).unwrap();
    let name = "tictoc-pwal-7.json";
    let document = std::fs::read(first.join(name)).unwrap();
    let mut document: Value = serde_json::from_slice(&document).unwrap();
    for point in document["points"].as_array().unwrap() {
        let within = |key: &str| point[key].as_f64().unwrap();
        assert!(
            within("expected_low") <= within("low") && within("high") <= within("expected_high")
        );
    }
    let write = |document: &Value| {
        std::fs::write(second.join(name), serde_json::to_vec(document).unwrap()).unwrap();
    };
    write(&document);
    let command = format!("agreement {} {}", text(&first), text(&second));
    let agreed = rows(&command);
    assert_eq!(agreed.len(), 1);
    assert_eq!(
        (&agreed[0]["points"], &agreed[0]["within"]),
        (&8.into(), &8.into())
    );
    for point in document["points"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .take(2)
    {
        point["median"] = (point["expected_high"].as_f64().unwrap() * 1.01).into();
    }
    write(&document);
    let output = run(&command);
    assert_eq!(output.status.code(), Some(1));
    let (found, errors) = (output.stdout, output.stderr);
    let found = String::from_utf8(found).unwrap();
    assert_eq!(found.matches(", expected ").count(), 2, "{found}");
    let errors = String::from_utf8(errors).unwrap();
    assert!(errors.contains("6 of 8 points lie within"), "{errors}");
    let empty = format!("agreement {} {}", text(&first), text(dir.path()));
    refused(&empty, 2, "no point in common");
}

/// All figures of the list except those of the cluster, which needs another program; one page, and
/// one run of each experiment.
#[test]
fn a_report_is_one_page_over_all_figures() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows(&format!(
        "report --out {} --skip raft-pwal --quick --threads 1 --records 1000 --device null",
        text(dir.path())
    ));
    let mut listed = crate::support::rows("figure --list");
    listed.retain(|row| row["paper"] != "raft-pwal");
    let claims: u64 = listed
        .iter()
        .map(|row| row["claims"].as_u64().unwrap())
        .sum();
    assert_eq!(of_kind(&rows, "claim").len() as u64, claims);
    let page = std::fs::read_to_string(dir.path().join("index.html")).unwrap();
    // For wide screens and for narrow ones.
    // Figures 6 to 13 of tictoc-pwal have two charts.
    assert_eq!(page.matches("<svg ").count(), 2 * (listed.len() + 8));
    assert!(!page.contains("figures are missing"));
    assert!(
        !page.contains("src=") && !page.contains("<script"),
        "it needs no other file"
    );
    let table = std::fs::read_to_string(dir.path().join("verdicts.md")).unwrap();
    let sentences = table.lines().filter(|line| line.starts_with("| `figure "));
    assert_eq!(sentences.count() as u64, claims, "{table}");
    for row in &listed {
        let slug = format!("{}-{}", row["paper"].as_str().unwrap(), row["figure"]);
        assert!(page.contains(&format!("id=\"{slug}\"")), "{slug}");
        for ending in ["csv", "svg", "json"] {
            assert!(
                dir.path().join(format!("{slug}.{ending}")).is_file(),
                "{slug}.{ending}"
            );
        }
        elements(&dir.path().join(format!("{slug}.svg")), "rect");
    }
    // Aborts are drawn by the paper's count.
    for point in of_kind(&rows, "point") {
        let is_of_aborts =
            point["paper"] == "tictoc-pwal" && matches!(point["figure"].as_u64(), Some(9 | 13));
        assert_eq!(point["measure"] == "paper_abort_percent", is_of_aborts);
        assert!(!is_of_aborts || point["counts"]["failed_locks"].is_number());
    }
    // Figures 6 and 7 of pwal show the same runs.
    let runs = |slug: &str| lines(&dir.path().join(format!("{slug}.csv")));
    assert_eq!(runs("pwal-6"), runs("pwal-7"));
}
