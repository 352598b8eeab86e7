//! `namiki check` on a directory that an earlier program wrote.

use std::path::Path;
use std::process::Command;

/// Nothing is written there: the fixtures themselves are checked.
#[test]
fn check_finds_old_directories_sound() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    for name in ["format-1", "format-7"] {
        let output = Command::new(env!("CARGO_BIN_EXE_namiki"))
            .arg("check")
            .arg(fixtures.join(name))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("sound: "), "{name}: {text}");
        assert!(
            text.contains("last opened as SILO(EPOCH)+PWAL(1), not closed in order"),
            "{name}: {text}"
        );
    }
}
