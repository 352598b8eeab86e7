//! `namiki check` on a directory that an earlier program wrote.

use std::path::Path;
use std::process::Command;

/// Nothing is written there: the fixture itself is checked.
#[test]
fn check_finds_an_old_directory_sound() {
    let output = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .arg("check")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/format-1"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("sound: "), "{text}");
    assert!(
        text.contains("last opened as SILO(EPOCH)+PWAL(1), not closed in order"),
        "{text}"
    );
}
