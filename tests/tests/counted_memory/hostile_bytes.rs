//! Runs the fuzz targets on the corpora: inputs found by fuzzing and seeds written by the product.
//! `cargo xtask fuzz` continues from them.

use std::fs;

use namiki_tests::hostile_bytes::{TARGETS, corpus, corpus_folder, run, seeds};

use crate::alone;

/// Each file of the corpora ends in a result or in a typed error, within the memory limit.
#[test]
fn fuzzing_corpora_end_without_a_panic() {
    let _alone = alone();
    for target in TARGETS {
        let inputs = corpus(target.name).unwrap();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for (file, bytes) in inputs {
            println!("{}/{file}", target.name);
            run(target.name, &bytes);
        }
    }
}

/// Checks that each target still accepts valid inputs after changes of the formats. With
/// `NAMIKI_WRITE_SEEDS` it writes the seeds into the corpora.
#[test]
fn seeds_are_accepted_to_their_end() {
    let _alone = alone();
    let writes = std::env::var_os("NAMIKI_WRITE_SEEDS").is_some();
    for target in TARGETS {
        for (name, bytes) in seeds(target.name) {
            println!("{}/{name}: {} bytes", target.name, bytes.len());
            assert!(run(target.name, &bytes), "{}/{name}", target.name);
            if writes {
                let folder = corpus_folder(target.name);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(name), bytes).unwrap();
            }
        }
    }
}
