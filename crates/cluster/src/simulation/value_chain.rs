//! The commands of one entry on one row: whether some order of them is possible.
//!
//! Each names the value before it and leaves another one. As edges from value to value they have to form a trail that begins
//! at the row's value and uses each once (Euler's): all edges are reachable, and every value is left as often as it is
//! reached, except the first and the last. So the last value is the same in every possible order.

use std::collections::BTreeMap;

/// A row's value; `None`: it is absent.
pub(super) type RowValue = Option<Vec<u8>>;

/// What a command does to a row.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) before: RowValue,
    pub(super) after: RowValue,
}

/// The values of the row: its own first, the one that is left last, and those between in any order.
pub(super) fn follow(first: RowValue, steps: Vec<Step>) -> Result<Vec<RowValue>, String> {
    // How often a value is left, less how often it is reached.
    let mut left: BTreeMap<&RowValue, i32> = BTreeMap::new();
    *left.entry(&first).or_default() -= 1;
    for step in &steps {
        *left.entry(&step.before).or_default() += 1;
        *left.entry(&step.after).or_default() -= 1;
    }
    let mut ends = left.into_iter().filter(|(_, count)| *count != 0);
    let (Some((last, -1)), None) = (ends.next(), ends.next()) else {
        return Err(contradiction(&first, &steps));
    };
    let last = last.clone();
    let mut values = vec![first.clone()];
    let mut ahead: Vec<&Step> = steps.iter().collect();
    while !ahead.is_empty() {
        let before = ahead.len();
        ahead.retain(|step| {
            let is_reached = values.contains(&step.before);
            if is_reached && !values.contains(&step.after) {
                values.push(step.after.clone());
            }
            !is_reached
        });
        if ahead.len() == before {
            return Err(contradiction(&values[0], &steps));
        }
    }
    if values.last() != Some(&last) {
        values.push(last);
    }
    Ok(values)
}

fn contradiction(first: &RowValue, steps: &[Step]) -> String {
    let text = |value: &RowValue| match value {
        None => "nothing".to_owned(),
        Some(value) => String::from_utf8_lossy(value).trim_end().to_owned(),
    };
    let steps = steps
        .iter()
        .map(|step| format!("{} → {}", text(&step.before), text(&step.after)));
    let steps: Vec<_> = steps.collect();
    format!(
        "it has {}, and no order of {} begins there",
        text(first),
        steps.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> RowValue {
        (text != "-").then(|| text.as_bytes().to_vec())
    }

    /// What is left; `None` if there is no order.
    fn last(first: &str, steps: &str) -> Option<RowValue> {
        let steps = steps.split_whitespace().map(|step| {
            let (before, after) = step.split_once('>').expect("it has two values");
            Step {
                before: value(before),
                after: value(after),
            }
        });
        let values = follow(value(first), steps.collect()).ok()?;
        values.last().cloned()
    }

    #[test]
    fn the_commands_of_a_row_have_an_order() {
        assert_eq!(last("a", ""), Some(value("a")));
        assert_eq!(last("a", "b>c a>b c>-"), Some(value("-")));
        // It is deleted, made, deleted and made.
        assert_eq!(last("a", "->c b>- ->b a>-"), Some(value("c")));
        // A condition on a row that is not written.
        assert_eq!(last("a", "b>b a>b b>c"), Some(value("c")));
    }

    #[test]
    fn commands_without_an_order_are_found() {
        for (first, steps) in [
            ("a", "b>c"),
            ("a", "->b"),
            ("a", "a>b a>c"),
            ("-", "->b ->c"),
            ("a", "a>b c>c"),
            ("a", "a>b c>d d>c"),
        ] {
            assert_eq!(last(first, steps), None, "{first}: {steps}");
        }
    }
}
