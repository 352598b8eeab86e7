//! `namiki check` on a directory that an earlier program wrote.

use std::path::Path;

use crate::program::{has, said};

/// Nothing is written there: the fixture itself is checked.
#[test]
fn check_finds_an_old_directory_sound() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/format-2");
    let text = said(0, "check", &fixture);
    has(&text, "sound: ");
    has(
        &text,
        "last opened as SILO(EPOCH)+PWAL(1), not closed in order",
    );
}
