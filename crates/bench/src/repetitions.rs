//! Repetitions of runs, interleaved over their combinations.

use crate::error::BenchError;
use crate::interrupt;

/// Runs each combination once, then each again, and so on. Disturbances of the machine then affect
/// all combinations alike.
pub(crate) fn in_turns<C>(
    repeat: u32,
    combinations: &[C],
    mut run: impl FnMut(&C, u32) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for round in 1..=repeat {
        for combination in combinations {
            interrupt::check()?;
            run(combination, round)?;
        }
    }
    interrupt::check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_take_turns() {
        let mut order = Vec::new();
        in_turns(2, &["a", "b"], |name, round| {
            order.push(format!("{name}{round}"));
            Ok(())
        })
        .unwrap();
        assert_eq!(order, ["a1", "b1", "a2", "b2"]);
    }
}
