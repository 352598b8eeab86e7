//! Every statement is tested as holding, failing and not testable.

use super::super::claim::Terms;
use super::*;

const UP: &str = "up";
const FLAT_LINE: &str = "flat";
const DOWN: &str = "down";

/// Two runs of each point, which differ by one percent.
fn near(number: f64) -> Spread {
    Spread::of(vec![number * 0.995, number * 1.005]).unwrap()
}

/// On 4 cores: one line rises, one is flat, one falls; 8 threads exceed the number of cores.
fn points() -> Points {
    let mut points = Vec::new();
    for (threads, up, flat, down) in [
        (1, 10.0, 20.0, 40.0),
        (2, 20.0, 21.0, 30.0),
        (4, 45.0, 20.5, 15.0),
        (8, 30.0, 19.0, 12.0),
    ] {
        points.push((UP, threads, near(up)));
        points.push((FLAT_LINE, threads, near(flat)));
        points.push((DOWN, threads, near(down)));
    }
    Points::new(4, vec![UP, FLAT_LINE, DOWN], points)
}

fn claim(cores_min: u16, statements: &'static [Statement]) -> Claim {
    Claim::new("1", "…", "…", statements, Terms::new(&[]).cores(cores_min))
}

/// The statements hold and fail as expected, by more than the variation of the runs.
#[track_caller]
fn decided(holds: &'static [Statement], fails: &'static [Statement]) {
    let points = points();
    for (statements, expected) in [(holds, Verdict::Holds), (fails, Verdict::DoesNotHold)] {
        for at in 0..statements.len() {
            let judged = judge(&claim(4, &statements[at..=at]), &points);
            assert_eq!(judged.verdict, expected, "{:?}: {judged:?}", statements[at]);
            assert!(!judged.found.is_empty());
            let judged = judge(&claim(5, &statements[at..=at]), &points);
            assert_eq!(judged.verdict, Verdict::NotTestable);
            assert!(judged.found.starts_with("needs >= 5 cores"), "{judged:?}");
        }
    }
    // A single failing statement is enough.
    let both: &'static [Statement] = Box::leak(Box::new([holds[0], fails[0]]));
    assert_eq!(
        judge(&claim(1, both), &points).verdict,
        Verdict::DoesNotHold
    );
}

#[test]
fn the_highest_is_above_every_other() {
    decided(
        &[
            Statement::Highest(&[UP], At::Cores),
            Statement::Highest(&[UP, FLAT_LINE], At::Most),
            Statement::Highest(&[DOWN], At::Fewest),
        ],
        &[
            Statement::Highest(&[UP], At::Fewest),
            Statement::Highest(&[UP, DOWN], At::Cores),
        ],
    );
}

#[test]
fn the_lowest_is_below_every_other() {
    decided(
        &[
            Statement::Lowest(&[DOWN], At::Cores),
            Statement::Lowest(&[UP, FLAT_LINE], At::Fewest),
        ],
        &[
            Statement::Lowest(&[FLAT_LINE], At::Cores),
            Statement::Lowest(&[UP, FLAT_LINE], At::Threads(4)),
        ],
    );
}

/// For example, no failed CAS with one log and with the other.
#[test]
fn equal_counts_in_every_run_are_decided() {
    let zero = || Spread::of(vec![0.0, 0.0]).unwrap();
    let points = Points::new(1, vec![UP, DOWN], vec![(UP, 1, zero()), (DOWN, 1, zero())]);
    let statements: [&'static [Statement]; 2] = [
        &[Statement::Order(&[UP, DOWN], At::Fewest)],
        &[Statement::NotAbove(UP, DOWN, At::Fewest)],
    ];
    let verdicts = statements.map(|one| judge(&claim(1, one), &points).verdict);
    assert_eq!(verdicts, [Verdict::DoesNotHold, Verdict::Holds]);
}

#[test]
fn a_tenth_above_is_not_above() {
    decided(
        &[
            Statement::NotAbove(FLAT_LINE, UP, At::Threads(2)),
            Statement::NotAbove(DOWN, UP, At::Cores),
        ],
        &[Statement::NotAbove(UP, DOWN, At::Cores)],
    );
}

#[test]
fn an_order_is_one_above_the_next() {
    decided(
        &[
            Statement::Order(&[UP, FLAT_LINE, DOWN], At::Cores),
            Statement::Order(&[DOWN, UP], At::Threads(1)),
        ],
        &[
            Statement::Order(&[UP, DOWN, FLAT_LINE], At::Cores),
            Statement::OrderEverywhere(&[UP, DOWN]),
        ],
    );
}

#[test]
fn rising_is_stepwise_and_growing_is_end_to_end() {
    decided(
        &[
            Statement::Rises(UP, At::Cores),
            Statement::Grows(UP, At::Fewest, At::Most),
            Statement::Grows(FLAT_LINE, At::Threads(1), At::Threads(2)),
        ],
        &[
            Statement::Rises(UP, At::Most),
            Statement::Rises(DOWN, At::Threads(2)),
            Statement::Grows(UP, At::Cores, At::Most),
        ],
    );
}

#[test]
fn falling_reaches_the_end_and_a_drop_the_next_step() {
    decided(
        &[
            Statement::Falls(DOWN, At::Threads(2)),
            Statement::Falls(UP, At::Cores),
            Statement::DropsAfter(DOWN, &[1, 2]),
        ],
        &[
            // It drops by less than a tenth.
            Statement::DropsAfter(FLAT_LINE, &[2]),
            Statement::Falls(UP, At::Threads(2)),
            Statement::DropsAfter(FLAT_LINE, &[1, 2]),
        ],
    );
}

#[test]
fn only_falling_lines_stop_rising() {
    decided(
        &[
            Statement::StopsRising(FLAT_LINE, 1),
            Statement::StopsRising(DOWN, 1),
            Statement::Flat(FLAT_LINE, 1),
        ],
        &[
            Statement::StopsRising(UP, 2),
            Statement::Flat(UP, 2),
            Statement::Flat(DOWN, 1),
        ],
    );
}

#[test]
fn growing_little_is_by_a_quarter_at_most() {
    let little = |line, from, to| Statement::GrowsLittle(line, from, to);
    let (one, two) = (At::Threads(1), At::Threads(2));
    decided(
        Box::leak(Box::new([little(FLAT_LINE, one, two)])),
        Box::leak(Box::new([little(UP, one, two), little(DOWN, one, two)])),
    );
}

/// The line is lower at the end, but this is no fall: it rose above its first value.
#[test]
fn a_line_that_rises_on_the_way_does_not_fall() {
    let line = |values: [f64; 4]| {
        let at = [2, 4, 8, 16].into_iter().zip(values);
        let all = at.map(|(threads, value)| (UP, threads, near(value)));
        Points::new(4, vec![UP], all.collect())
    };
    let falls = claim(1, &[Statement::Falls(UP, At::Threads(2))]);
    for (values, verdict) in [
        ([60.0, 55.0, 58.0, 40.0], Verdict::Holds),
        ([60.0, 84.0, 70.0, 50.0], Verdict::DoesNotHold),
        ([60.0, 62.0, 61.0, 63.0], Verdict::DoesNotHold),
    ] {
        assert_eq!(judge(&falls, &line(values)).verdict, verdict, "{values:?}");
    }
}

/// `near` has two runs of each point.
#[test]
fn one_run_of_a_deciding_point_is_not_judged() {
    let once = |number| Spread::of(vec![number]).unwrap();
    let order = claim(1, &[Statement::Order(&[UP, DOWN], At::Threads(1))]);
    let ratio = claim(1, &[Statement::Ratio(UP, DOWN, At::Threads(1), 2.0)]);
    for (up, verdict) in [(once(2.0), Verdict::NotJudged), (near(2.0), Verdict::Holds)] {
        // Points that do not decide may have one run.
        let all = vec![(UP, 1, up), (DOWN, 1, near(1.0)), (FLAT_LINE, 1, once(9.0))];
        let points = Points::new(4, vec![UP, FLAT_LINE, DOWN], all);
        for claim in [&order, &ratio] {
            let judged = judge(claim, &points);
            assert_eq!(judged.verdict, verdict, "{judged:?}");
            assert!(judged.doubt.is_none() && !judged.found.is_empty());
        }
    }
}

#[test]
fn a_claim_that_compares_nothing_does_not_hold() {
    let alone = claim(1, &[Statement::OrderEverywhere(&[FLAT_LINE])]);
    assert_eq!(judge(&alone, &points()).verdict, Verdict::NotTestable);
}

#[test]
fn ratios_are_as_claimed_within_a_quarter_both_ways() {
    decided(
        &[
            Statement::Ratio(UP, DOWN, At::Threads(8), 2.4),
            Statement::RatioOfPeaks(UP, FLAT_LINE, 2.1),
            Statement::RatiosShrink(&[(UP, DOWN), (UP, FLAT_LINE), (UP, UP)], At::Cores),
        ],
        &[
            Statement::Ratio(UP, DOWN, At::Threads(8), 3.2),
            // A ratio above the claimed one does not confirm it.
            Statement::Ratio(UP, DOWN, At::Threads(8), 1.9),
            Statement::RatioOfPeaks(UP, DOWN, 0.8),
            Statement::RatioOfPeaks(UP, DOWN, 1.5),
            Statement::RatiosShrink(&[(UP, FLAT_LINE), (UP, DOWN)], At::Cores),
        ],
    );
}

#[test]
fn a_line_that_crosses_was_not_the_highest_before() {
    decided(
        &[Statement::Crosses(UP, At::Cores)],
        &[
            Statement::Crosses(DOWN, At::Threads(2)),
            Statement::Crosses(UP, At::Threads(2)),
        ],
    );
}

#[test]
fn gains_are_from_one_number_of_threads_to_the_other() {
    decided(
        &[Statement::GainsOrder(
            &[UP, FLAT_LINE, DOWN],
            At::Fewest,
            At::Most,
        )],
        &[Statement::GainsOrder(
            &[DOWN, UP],
            At::Threads(2),
            At::Cores,
        )],
    );
}

#[test]
fn what_was_not_measured_decides_nothing() {
    let all = points();
    for (statement, needs) in [
        (
            Statement::Highest(&[UP], At::Threads(24)),
            "needs --threads 24",
        ),
        (Statement::StopsRising(UP, 5), "at more than one of 5 to 4"),
        (
            Statement::Ratio(UP, "other", At::Most, 1.0),
            "needs other at --threads 8",
        ),
    ] {
        let statements: &'static [Statement] = Box::leak(Box::new([statement]));
        let judged = judge(&claim(1, statements), &all);
        assert_eq!(judged.verdict, Verdict::NotTestable);
        assert!(judged.found.contains(needs), "{judged:?}");
    }
    let alone = Points::new(4, vec![UP], vec![(UP, 8, near(1.0))]);
    let rises = claim(1, &[Statement::Rises(UP, At::Cores)]);
    assert_eq!(judge(&rises, &alone).found, "needs --threads 4");
    let grows = claim(1, &[Statement::Grows(UP, At::Most, At::Most)]);
    assert_eq!(judge(&grows, &alone).verdict, Verdict::NotTestable);
}

/// A claim that holds is undecided if any of its comparisons is. A claim that fails is undecided
/// only if nothing clear contradicts it.
#[test]
fn runs_that_overlap_decide_nothing() {
    let wide = |low, high| Spread::of(vec![low, high]).unwrap();
    let one = vec![(UP, 1, wide(9.0, 13.0)), (FLAT_LINE, 1, wide(8.0, 12.0))];
    let points = Points::new(1, vec![UP, FLAT_LINE], one);
    let order = |highest_first| Statement::Order(highest_first, At::Fewest);
    for (highest_first, as_claimed) in [(&[UP, FLAT_LINE], true), (&[FLAT_LINE, UP], false)] {
        let statements: &'static [Statement] = Box::leak(Box::new([order(highest_first)]));
        let judged = judge(&claim(1, statements), &points);
        assert_eq!(judged.verdict, Verdict::Undecided);
        assert_eq!(
            (judged.as_claimed, judged.within_spread()),
            (as_claimed, true)
        );
    }
    let clear = claim(1, &[Statement::Highest(&[UP], At::Cores)]);
    assert!(!judge(&clear, &self::points()).within_spread());
    let mixed = vec![
        (UP, 1, wide(9.0, 13.0)),
        (FLAT_LINE, 1, wide(9.5, 14.0)),
        (DOWN, 1, wide(90.0, 91.0)),
    ];
    let mixed = Points::new(1, vec![UP, FLAT_LINE, DOWN], mixed);
    let judged = judge(&clear, &mixed);
    assert_eq!(judged.verdict, Verdict::DoesNotHold);
    assert!(!judged.within_spread(), "it is clearly below one of them");
}

#[test]
fn climbing_allows_a_tenth() {
    let verdict = |values: [f64; 4]| {
        let places = [1, 2, 4, 8].into_iter().zip(values);
        let spreads = places.map(|(place, value)| (UP, place, near(value)));
        let points = Points::new(4, vec![UP], spreads.collect());
        let statements: &'static [Statement] = &[Statement::Climbs(UP, At::Fewest)];
        judge(&claim(1, statements), &points).verdict
    };
    assert_eq!(verdict([10.0, 20.0, 19.0, 18.0]), Verdict::Holds);
    assert_eq!(verdict([10.0, 20.0, 17.0, 21.0]), Verdict::DoesNotHold);
    assert_eq!(verdict([10.0, 10.0, 10.0, 9.5]), Verdict::DoesNotHold);
}

#[test]
fn a_value_is_found_within_a_quarter() {
    let about = |value| Statement::About(FLAT_LINE, At::Fewest, value);
    decided(
        Box::leak(Box::new([about(24.0)])),
        Box::leak(Box::new([about(26.0)])),
    );
}

#[test]
fn a_value_may_have_a_limit() {
    let (line, at) = (UP, At::Most);
    let below = |value| Statement::Below(line, at, value);
    let over = |value| Statement::Over(line, at, value);
    decided(
        Box::leak(Box::new([below(31.0), over(29.0)])),
        Box::leak(Box::new([below(29.0), over(31.0)])),
    );
}

#[test]
fn lines_approach_each_other_if_their_ratio_shrinks() {
    let shrinks = |upper, lower| Statement::RatioShrinks(upper, lower, At::Fewest, At::Cores);
    decided(
        Box::leak(Box::new([shrinks(DOWN, FLAT_LINE), shrinks(DOWN, UP)])),
        Box::leak(Box::new([shrinks(FLAT_LINE, DOWN), shrinks(UP, DOWN)])),
    );
}

#[test]
fn a_line_without_points_is_what_is_needed() {
    let statements: &'static [Statement] = &[Statement::Over("30 workers", At::Most, 90.0)];
    let points = points().along("seconds", Vec::new());
    let judged = judge(&claim(1, statements), &points);
    assert_eq!(judged.verdict, Verdict::NotTestable);
    assert_eq!(judged.found, "needs 30 workers");
}

#[test]
fn what_needs_more_cores_shows_what_was_measured() {
    let statements: &'static [Statement] = &[Statement::About(FLAT_LINE, At::Fewest, 6.3)];
    let judged = judge(&claim(128, statements), &points());
    assert_eq!(judged.verdict, Verdict::NotTestable);
    assert_eq!(judged.found, "needs >= 128 cores; here: flat: 20.0 at 1");
}

/// A line with this value at various reads per second, in two rounds that differ by one percent.
fn over_rates(value: fn(f64) -> f64) -> Points {
    let places = [(1, 2.0), (2, 4.0), (4, 9.0), (8, 15.0), (16, 30.0)];
    let spreads = places.map(|(place, rate)| (UP, place, near(value(rate))));
    let medians = places.map(|(place, rate)| (place, rate, value(rate)));
    let round = |by: f64| places.map(|(_, rate)| (rate, by * value(rate))).to_vec();
    let rates = RateLine {
        line: UP,
        medians: medians.to_vec(),
        rounds: vec![round(0.995), round(1.005)],
    };
    Points::new(4, vec![UP], spreads.to_vec()).along("tasks", vec![rates])
}

/// Paper: oode §3.1, figure 5.
#[test]
fn contention_shows_in_the_shape_of_the_line() {
    let verdicts = |value| {
        let points = over_rates(value);
        let statements: [&'static [Statement]; 3] = [
            &[Statement::Linear(UP, 0.98)],
            &[Statement::SmallIntercept(UP)],
            &[Statement::NoDearer(UP)],
        ];
        statements.map(|statements| judge(&claim(1, statements), &points).verdict)
    };
    let (holds, fails) = (Verdict::Holds, Verdict::DoesNotHold);
    assert_eq!(verdicts(|rate| 0.5 * rate), [holds, holds, holds]);
    assert_eq!(verdicts(|rate| 20.0 + 0.5 * rate), [holds, fails, holds]);
    assert_eq!(verdicts(|rate| rate * rate * rate), [fails, fails, fails]);
}

#[test]
fn a_line_of_few_points_is_not_fitted() {
    let statements: &'static [Statement] = &[Statement::Linear(UP, 0.98)];
    let judged = judge(&claim(1, statements), &points());
    assert_eq!(judged.verdict, Verdict::NotTestable);
    assert_eq!(judged.found, "needs up at more --threads");
}

#[test]
fn a_line_is_above_or_below_each_of_some_others() {
    decided(
        &[
            Statement::AboveAll(UP, &[FLAT_LINE, DOWN], At::Cores),
            Statement::AboveAll(FLAT_LINE, &[DOWN], At::Cores),
            Statement::BelowAll(DOWN, &[FLAT_LINE, UP], At::Cores),
            Statement::BelowAll(FLAT_LINE, &[UP], At::Cores),
        ],
        &[
            Statement::AboveAll(FLAT_LINE, &[DOWN, UP], At::Cores),
            Statement::AboveAll(DOWN, &[UP], At::Cores),
            Statement::BelowAll(FLAT_LINE, &[UP, DOWN], At::Cores),
            Statement::BelowAll(UP, &[DOWN], At::Cores),
        ],
    );
}

#[test]
fn a_line_stands_out_by_more_than_a_tenth() {
    let stands_out = |line, others, at| Statement::StandsOut(line, others, at);
    decided(
        Box::leak(Box::new([
            stands_out(UP, &[FLAT_LINE, DOWN], At::Cores),
            stands_out(DOWN, &[FLAT_LINE, UP], At::Threads(2)),
            stands_out(FLAT_LINE, &[DOWN], At::Cores),
        ])),
        Box::leak(Box::new([
            stands_out(DOWN, &[FLAT_LINE, UP], At::Cores),
            stands_out(FLAT_LINE, &[DOWN, UP], At::Threads(2)),
        ])),
    );
    for (up, verdict) in [(10.8, Verdict::DoesNotHold), (11.2, Verdict::Holds)] {
        let both = vec![(UP, 1, near(up)), (DOWN, 1, near(10.0))];
        let statements: &'static [Statement] = &[Statement::StandsOut(UP, &[DOWN], At::Fewest)];
        let judged = judge(&claim(1, statements), &Points::new(1, vec![UP, DOWN], both));
        assert_eq!(judged.verdict, verdict, "{judged:?}");
    }
}

#[test]
fn a_line_is_among_others_within_a_quarter() {
    let among = |line, others: &'static [&'static str], at| Statement::Among(line, others, at);
    let (up_and_down, flat_and_down) = (&[UP, DOWN], &[FLAT_LINE, DOWN]);
    decided(
        Box::leak(Box::new([
            among(FLAT_LINE, up_and_down, At::Threads(2)),
            among(UP, &[FLAT_LINE], At::Threads(2)),
        ])),
        Box::leak(Box::new([
            among(UP, flat_and_down, At::Cores),
            among(UP, flat_and_down, At::Fewest),
        ])),
    );
}

#[test]
fn growth_slows_if_the_last_step_gains_less() {
    let slows = |line, up_to| Statement::GrowthSlows(line, up_to);
    decided(
        Box::leak(Box::new([slows(FLAT_LINE, At::Cores), slows(UP, At::Most)])),
        Box::leak(Box::new([slows(UP, At::Cores), slows(DOWN, At::Cores)])),
    );
    let two = claim(1, &[Statement::GrowthSlows(UP, At::Threads(2))]);
    let judged = judge(&two, &points());
    assert_eq!(judged.verdict, Verdict::NotTestable);
    assert_eq!(judged.found, "needs up at more --threads");
}

#[test]
fn a_straight_line_rises_and_has_four_points() {
    let judged = |cores, runs: fn(f64) -> Spread, value: fn(f64) -> f64| {
        let places = [1, 2, 4, 8].map(|place: u32| (UP, place, runs(value(place.into()))));
        let statements: &'static [Statement] = &[Statement::Straight(UP, 0.98, At::Cores)];
        let points = Points::new(cores, vec![UP], places.to_vec());
        judge(&claim(1, statements), &points)
    };
    let curves: [(fn(f64) -> f64, Verdict); 3] = [
        (|threads| 3.0 + 2.0 * threads, Verdict::Holds),
        (|threads| 30.0 - 2.0 * threads, Verdict::DoesNotHold),
        (|threads| threads / (1.0 + threads), Verdict::DoesNotHold),
    ];
    for (value, verdict) in curves {
        let judged = judged(8, near, value);
        assert_eq!(judged.verdict, verdict, "{judged:?}");
        assert!(!judged.within_spread(), "{judged:?}");
    }
    let few = judged(4, near, |threads| threads);
    assert_eq!(few.verdict, Verdict::NotTestable);
    assert_eq!(few.found, "needs up at more --threads");
    let once = judged(
        8,
        |value| Spread::of(vec![value]).unwrap(),
        |threads| threads,
    );
    assert_eq!(once.verdict, Verdict::NotJudged, "{once:?}");
}
