//! On any system other than Linux, the build ends with a sentence.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// Compiles the file with that sentence for a system for which no standard library need be
/// installed.
fn compile_for(target: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/linux_only.rs");
    let path = file.display();
    // Without `core`, so with the one macro of it that is needed.
    let source = format!(
        "#![feature(no_core, rustc_attrs)]\n#![allow(internal_features)]\n#![no_core]\n#![crate_type = \"rlib\"]\n\
         #[rustc_builtin_macro] macro_rules! compile_error {{ ($text:expr $(,)?) => {{}} }}\n\
         #[path = {:?}] mod linux_only;\n",
        path.to_string()
    );
    std::fs::write(dir.path().join("program.rs"), source).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    // A stable compiler works without `core` only if it believes that it builds a part of it.
    rustc.env("RUSTC_BOOTSTRAP", "1").current_dir(dir.path());
    rustc.args(["--emit=metadata", "--target", target, "program.rs"]);
    let output = rustc.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), told)
}

#[test]
fn other_systems_are_told_what_is_needed() {
    for target in ["x86_64-apple-darwin", "x86_64-pc-windows-msvc"] {
        let (compiles, told) = compile_for(target);
        assert!(!compiles, "{target}");
        assert!(
            told.starts_with("error: Namiki runs on Linux only: "),
            "{told}"
        );
    }
}

#[test]
fn linux_is_told_nothing() {
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-musl"] {
        let (compiles, told) = compile_for(target);
        assert!(compiles, "{target}: {told}");
    }
}
