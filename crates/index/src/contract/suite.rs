//! The whole contract of an index, with loads that provoke typical faults: one function for each
//! claim, and [`ordered_contract!`](crate::ordered_contract) and
//! [`point_contract!`](crate::point_contract), which make tests of them all.

use super::key_shapes::KeyShape;
use super::random_concurrent_calls::{
    Load, point_operations_are_linearizable, scans_and_point_operations_are_linearizable,
};
use super::{concurrent_grow_and_shrink, phantoms, reference_map, stable_keys};
use crate::{OrderedIndex, PointIndex};

/// A kind of tree under test: how one is made, and the shapes of the keys that it takes.
#[derive(Debug, Clone, Copy)]
pub struct Subject<M> {
    /// Makes an empty tree. Small nodes make structure changes happen all the time.
    pub make: M,
    /// The shapes of its keys.
    pub shapes: &'static [KeyShape],
}

/// The claims of the point trait.
impl<T: PointIndex, M: Fn() -> T> Subject<M> {
    /// Runs `test` for every shape; `huge`: also for that of 64 KiB keys.
    fn each(&self, huge: bool, test: impl Fn(T, KeyShape)) {
        for shape in self.shapes {
            if huge || *shape != KeyShape::Huge {
                test((self.make)(), *shape);
            }
        }
    }

    /// See [`reference_map::matches_a_map`].
    ///
    /// # Panics
    /// If the claim does not hold. So for all functions here.
    pub fn matches_a_map(&self) {
        for seed in 0..4 {
            self.each(true, |index, shape| {
                let (keys, steps) = course(shape);
                reference_map::matches_a_map(&index, shape, keys, steps, seed);
            });
        }
    }

    /// See [`phantoms::no_insert_slips_past_a_successful_check`].
    pub fn no_insert_slips_past_a_successful_check(&self) {
        let all_but_huge = self.shapes.iter().filter(|s| **s != KeyShape::Huge);
        for shape in all_but_huge {
            phantoms::no_insert_slips_past_a_successful_check(&self.make, *shape, 120, 13);
        }
    }

    /// Few keys on few leaves; more keys than a leaf has; few keys among many that come and go.
    pub fn point_operations_are_linearizable(&self) {
        for (keys, apart) in [(3, 1), (60, 1), (1_500, 300)] {
            self.each(false, |tree, shape| {
                point_operations_are_linearizable(&tree, shape, load(3_000, keys, 14), apart);
            });
        }
    }

    /// See [`stable_keys::gets_never_miss_a_key_that_stays`].
    pub fn gets_never_miss_a_key_that_stays(&self) {
        self.each(false, |tree, shape| {
            let load = Load {
                threads: 3,
                ..load(8_000, 400, 18)
            };
            stable_keys::gets_never_miss_a_key_that_stays(&tree, shape, load);
        });
    }

    /// See [`phantoms::gets_and_inserts_tell_versions`].
    pub fn gets_and_inserts_tell_versions(&self) {
        self.each(false, |index, shape| {
            phantoms::gets_and_inserts_tell_versions(&index, shape, 19);
        });
    }
}

/// The further claims of the ordered trait.
impl<T: OrderedIndex, M: Fn() -> T> Subject<M> {
    /// See [`reference_map::matches_a_sorted_map`]; and an emptied tree is one leaf again.
    ///
    /// # Panics
    /// If the claim does not hold. So for all functions here.
    pub fn matches_a_sorted_map(&self) {
        for seed in 0..4 {
            self.each(true, |tree, shape| {
                let (keys, steps) = course(shape);
                reference_map::matches_a_sorted_map(&tree, shape, keys, steps, seed);
                let statistics = tree.statistics();
                assert!(
                    statistics.leaves <= 1 && statistics.inner_nodes == 0,
                    "{statistics:?}"
                );
            });
        }
    }

    /// See [`phantoms::updates_and_consolidations_keep_the_version`].
    pub fn updates_and_consolidations_keep_the_version(&self) {
        self.each(true, |tree, shape| {
            phantoms::updates_and_consolidations_keep_the_version(&tree, shape);
        });
    }

    /// See [`phantoms::deletes_and_inserts_change_the_version`].
    pub fn deletes_and_inserts_change_the_version(&self) {
        self.each(false, |tree, shape| {
            phantoms::deletes_and_inserts_change_the_version(&tree, shape, 11);
        });
    }

    /// See [`phantoms::inserts_report_versions_and_splits`].
    pub fn inserts_report_versions_and_splits(&self) {
        self.each(false, |tree, shape| {
            phantoms::inserts_report_versions_and_splits(&tree, shape, 12);
        });
    }

    /// The same with scans.
    pub fn scans_and_point_operations_are_linearizable(&self) {
        for (keys, apart) in [(12, 1), (400, 40)] {
            self.each(false, |tree, shape| {
                let load = load(3_000, keys, 17);
                scans_and_point_operations_are_linearizable(&tree, shape, load, apart);
            });
        }
    }

    /// See [`stable_keys::scans_never_miss_or_double_a_key_that_stays`].
    pub fn scans_never_miss_or_double_a_key_that_stays(&self) {
        self.each(false, |tree, shape| {
            let load = Load {
                threads: 3,
                ..load(8_000, 1_000, 15)
            };
            stable_keys::scans_never_miss_or_double_a_key_that_stays(&tree, shape, load);
        });
    }

    /// See [`concurrent_grow_and_shrink::churn_keeps_the_tree_sound`].
    pub fn churn_keeps_the_tree_sound(&self) {
        self.each(false, |tree, shape| {
            concurrent_grow_and_shrink::churn_keeps_the_tree_sound(
                &tree,
                shape,
                load(0, 2_000, 16),
            );
        });
    }
}

/// Numbers of keys and steps of a comparison with a model.
fn course(shape: KeyShape) -> (u64, usize) {
    if shape == KeyShape::Huge {
        (60, 2_000)
    } else {
        (400, 8_000)
    }
}

const fn load(operations: u64, keys: u64, seed: u64) -> Load {
    Load {
        threads: 4,
        operations,
        keys,
        seed,
    }
}

/// Makes a test of every claim, for each of some trees of eight-byte keys and of byte strings.
///
/// ```text
/// ordered_contract! {
///     fixed: [|| FixedBwTree::new(BwConfig::tiny())],
///     variable: [|| VariableBwTree::new(BwConfig::tiny())],
/// }
/// ```
#[macro_export]
macro_rules! ordered_contract {
    (fixed: $fixed:tt, variable: $variable:tt $(,)?) => {
        $crate::ordered_contract! {
            tests: [
                matches_a_sorted_map,
                updates_and_consolidations_keep_the_version,
                deletes_and_inserts_change_the_version,
                inserts_report_versions_and_splits,
                no_insert_slips_past_a_successful_check,
                point_operations_are_linearizable,
                scans_and_point_operations_are_linearizable,
                scans_never_miss_or_double_a_key_that_stays,
                gets_never_miss_a_key_that_stays,
                churn_keeps_the_tree_sound,
            ],
            fixed: $fixed,
            variable: $variable,
        }
    };
    (tests: [$($test:ident),+ $(,)?], fixed: $fixed:tt, variable: $variable:tt $(,)?) => {
        $(
            #[test]
            fn $test() {
                $crate::ordered_contract!(run: $test, FIXED, $fixed);
                $crate::ordered_contract!(run: $test, VARIABLE, $variable);
            }
        )+
    };
    (tests: [$($test:ident),+ $(,)?], every: $subjects:expr $(,)?) => {
        $(
            #[test]
            fn $test() {
                for subject in $subjects {
                    subject.$test();
                }
            }
        )+
    };
    (run: $test:ident, $shapes:ident, [$($make:expr),* $(,)?]) => {
        $(
            $crate::contract::Subject {
                make: $make,
                shapes: $crate::contract::KeyShape::$shapes,
            }
            .$test();
        )*
    };
}

/// The same for the claims of an unordered index. Instead of the two lists there may be one of
/// [`Subject`]s: `every: subjects()`.
#[macro_export]
macro_rules! point_contract {
    ($($subjects:tt)+) => {
        $crate::ordered_contract! {
            tests: [
                matches_a_map,
                gets_and_inserts_tell_versions,
                no_insert_slips_past_a_successful_check,
                point_operations_are_linearizable,
                gets_never_miss_a_key_that_stays,
            ],
            $($subjects)+
        }
    };
}
