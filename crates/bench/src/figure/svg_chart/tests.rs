//! What a chart has, and that none of it is cut.

use super::words;
use super::*;

fn spread(median: f64) -> Option<Spread> {
    Spread::of(vec![median * 0.9, median, median * 1.2])
}

fn chart(places: Places) -> Chart {
    let series = |name: &str, scale: f64| Series {
        name: name.to_owned(),
        points: vec![spread(scale), None, spread(3.0 * scale)],
    };
    Chart {
        title: "a < b & c".to_owned(),
        subtitles: vec!["one".to_owned(), "two".to_owned()],
        x_label: "threads".to_owned(),
        y_label: "\"tps\"".to_owned(),
        places,
        series: vec![series("P-WAL", 1e6), series("WAL", 2e5)],
        remarks: Vec::new(),
    }
}

fn doubling() -> Chart {
    chart(Places::Doubling(vec![1.0, 2.0, 4.0]))
}

#[test]
fn a_series_is_a_polyline_with_markers_and_whiskers() {
    let document = doubling().svg();
    let document = roxmltree::Document::parse(&document).unwrap();
    let of_class = |name: &str| {
        let nodes = document.descendants();
        nodes.filter(|n| n.attribute("class") == Some(name)).count()
    };
    let svg = |name| ("http://www.w3.org/2000/svg", name);
    let polylines: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name(svg("polyline")))
        .collect();
    assert_eq!(polylines.len(), 2);
    for polyline in polylines {
        assert_eq!(polyline.attribute("points").unwrap().split(' ').count(), 2);
    }
    // Two points, and the one of the legend.
    assert_eq!(of_class("f0"), 3);
    assert_eq!(of_class("whisker s1"), 6);
    let title = document.root_element().first_element_child().unwrap();
    assert_eq!(title.text(), Some("a < b & c"));
}

#[test]
fn bars_are_a_rectangle_a_point() {
    let names = ["r10", "u5r5", "u10"].map(ToOwned::to_owned).to_vec();
    let document = chart(Places::Names(names)).svg();
    let document = roxmltree::Document::parse(&document).unwrap();
    let bars = document
        .descendants()
        .filter(|node| node.tag_name().name() == "rect" && node.attribute("class") == Some("f1"));
    assert_eq!(bars.count(), 3);
}

#[test]
fn nothing_measured_is_still_a_chart() {
    for places in [
        Places::Doubling(vec![]),
        Places::Even(vec![]),
        Places::Names(vec![]),
    ] {
        let mut empty = chart(places);
        empty.series.clear();
        assert!(roxmltree::Document::parse(&empty.svg()).is_ok());
    }
}

/// The width of the plot is used even if the smallest number of threads is 1.
#[test]
fn doubled_threads_have_equal_distances() {
    let mut wide = doubling();
    wide.places = Places::Doubling(vec![1.0, 16.0, 256.0]);
    let drawing = Drawing::new(&wide, WIDE);
    let [first, middle, last] = drawing.places[..] else {
        panic!("{:?}", drawing.places);
    };
    assert!((middle - first - (last - middle)).abs() < 1e-9);
    assert!(last - first > 0.9 * (drawing.right - drawing.left));
    assert!(first - drawing.left < 20.0);
}

#[test]
fn the_papers_number_is_a_ring_where_it_would_lie() {
    let mut with = doubling();
    let mark = |value| Mark {
        series: 1,
        place: 2,
        value,
    };
    let words = "paper 3.23x, here 3.89x".to_owned();
    with.remarks = vec![
        Remark {
            words: words.clone(),
            mark: Some(mark(1e6)),
        },
        Remark {
            words: words.clone(),
            mark: None,
        },
    ];
    let document = with.svg();
    let document = roxmltree::Document::parse(&document).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.text() == Some(&words));
    // Two lines below the legend, and the ring's description.
    assert_eq!(texts.filter(|node| node.is_element()).count(), 3);
    let rings: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "circle")))
        .collect();
    assert_eq!(rings.len(), 2);
    let drawing = Drawing::new(&with, WIDE);
    let x: f64 = rings[0].attribute("cx").unwrap().parse().unwrap();
    assert!((x - drawing.places[2]).abs() < 0.1);
    let y: f64 = rings[0].attribute("cy").unwrap().parse().unwrap();
    let peaks = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("f0"));
    let peaks = peaks.filter_map(|node| node.attribute("transform"));
    let first = peaks.map(|it| {
        it.trim_end_matches(')')
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    });
    // 1e6 is the first point of the other series.
    assert!((first.into_iter().next().unwrap() - y).abs() < 0.1);
}

/// Every element of a drawing has its ends, and every text its estimated width, inside it.
#[track_caller]
pub(in crate::figure) fn nothing_is_cut(svg: &str) {
    let document = roxmltree::Document::parse(svg).unwrap();
    let root = document.root_element();
    let number = |node: roxmltree::Node<'_, '_>, name: &str| {
        let text = node.attribute(name);
        text.map(|text| text.parse::<f64>().unwrap())
    };
    let (width, height) = (
        number(root, "width").unwrap(),
        number(root, "height").unwrap(),
    );
    assert_eq!(
        root.attribute("viewBox"),
        Some(&*format!("0 0 {width} {height}"))
    );
    let within = |(from, to): (f64, f64), end: f64| from >= 0.0 && to <= end;
    let mut texts = 0;
    for node in document.descendants() {
        if node.tag_name().name() == "text" {
            let class = node.attribute("class").unwrap();
            let size = match class {
                "title" => words::TITLE,
                class if class.starts_with("soft") => words::SMALL,
                _ => words::PLAIN,
            };
            let room = words::width(node.text().unwrap(), size);
            let x = number(node, "x").unwrap();
            let from = match class {
                class if class.ends_with("middle") => x - room / 2.0,
                class if class.ends_with("end") => x - room,
                _ => x,
            };
            assert!(
                within((from, from + room), width),
                "{node:?}: {from} {room}"
            );
            let y = number(node, "y").unwrap();
            assert!(within((y - size, y + size / 3.0), height), "{node:?}");
            texts += 1;
        }
        for name in ["x", "x1", "x2", "cx"] {
            let x = number(node, name).unwrap_or(0.0);
            assert!(within((x, x), width), "{node:?}");
        }
        for name in ["y", "y1", "y2", "cy"] {
            let y = number(node, name).unwrap_or(0.0);
            assert!(within((y, y), height), "{node:?}");
        }
    }
    assert!(texts > 0);
}

#[test]
fn nothing_is_cut_however_long_it_is() {
    let long = "GrpSize 1, one group on its way, Japan, AWordThatIsLongerThanAPhoneIsWideAndHasNoSpaceAnywhereInIt";
    let names = vec![
        long.to_owned(),
        "READ 5 UPDATE 5".to_owned(),
        "r".to_owned(),
    ];
    for places in [
        Places::Doubling(vec![1.0, 2.0, 1024.0]),
        Places::Straight(vec![0.3, 2.0, 1_024_000.0]),
        Places::Even(vec![1.0, 50.0, 99.0]),
        Places::Names(names),
    ] {
        let mut chart = chart(places);
        for text in [&mut chart.title, &mut chart.x_label, &mut chart.y_label] {
            *text = long.repeat(3);
        }
        chart.subtitles.push(long.repeat(2));
        let one = chart.series[0].clone();
        for scale in 0..10 {
            let points = one
                .points
                .iter()
                .flatten()
                .map(|it| Some(it.times(10_f64.powi(-scale))));
            chart.series.push(Series {
                name: long.to_owned(),
                points: points.collect(),
            });
        }
        let mark = Some(Mark {
            series: 3,
            place: 1,
            value: 1e3,
        });
        chart.remarks.push(Remark {
            words: long.repeat(2),
            mark,
        });
        nothing_is_cut(&chart.svg());
        for width in [WIDE, NARROW] {
            nothing_is_cut(&chart.element(width));
        }
    }
}
