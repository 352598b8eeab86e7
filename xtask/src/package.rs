//! `cargo xtask package`: creates the published packages and checks them as a registry would.
//!
//! ```text
//!   manifests without `publish = false` ──► cargo package, all of them at once ──► no warning, a file for each
//!                                                                                  --into: unpacked, as a registry of paths
//! ```
//! The packages depend on each other by version. Cargo resolves versions that no registry has among
//! the packages that it is packing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::repository_files::Tree;

/// The start of cargo's warning about a test that a package leaves out, which is intended.
const LEFT_OUT: &str = "warning: ignoring test `";

/// Creates the packages. With `--build`, builds each from the other packages; with `--into`,
/// unpacks them.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let (mut is_built, mut folder) = (false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--build" => is_built = true,
            "--into" => {
                let given = args.next().ok_or("--into wants a folder")?;
                folder = Some(std::path::absolute(given).map_err(|error| error.to_string())?);
            }
            other => return Err(format!("`package` has no argument {other}")),
        }
    }
    let packages = Packages::of(&Tree::read(root)?);
    let warnings = packages.make(root, is_built)?;
    if !warnings.is_empty() {
        return Err(format!("cargo package warns:\n{}", warnings.join("\n")));
    }
    let made = target_folder(root).join("package");
    for package in &packages.public {
        let file = made.join(package.file_name());
        let length = fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{:>8} bytes  {}", length.len(), package.file_name());
    }
    if let Some(folder) = folder {
        packages.unpack(&made, &folder)?;
        println!(
            "unpacked into {}: programs in there find them",
            folder.display()
        );
    }
    println!("package: {} packages, all fine", packages.public.len());
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
}

impl Package {
    /// The name of its folder.
    fn stem(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    fn file_name(&self) -> String {
        format!("{}.crate", self.stem())
    }
}

/// The packages of the workspace.
struct Packages {
    public: Vec<Package>,
    /// Packages with `publish = false`.
    private: Vec<String>,
}

impl Packages {
    fn of(tree: &Tree) -> Self {
        let (mut public, mut private) = (Vec::new(), Vec::new());
        let root = tree.get("Cargo.toml").map_or("", |file| &file.text);
        let version = quoted(root, "version").unwrap_or_default();
        let manifests = tree.files.iter();
        for file in manifests.filter(|file| file.path.ends_with("/Cargo.toml")) {
            let Some(name) = quoted(&file.text, "name") else {
                continue;
            };
            let says = |said: &str| file.text.lines().any(|line| line == said);
            // A separate workspace is not a member of this one.
            if says("[workspace]") {
                continue;
            }
            if says("publish = false") {
                private.push(name);
            } else {
                let version = version.clone();
                public.push(Package { name, version });
            }
        }
        Self { public, private }
    }

    /// Packs the packages. Returns the unexpected warnings.
    fn make(&self, root: &Path, is_built: bool) -> Result<Vec<String>, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(root);
        cargo.args([
            "package",
            "--workspace",
            "--allow-dirty",
            "--color",
            "never",
        ]);
        for name in &self.private {
            cargo.args(["--exclude", name]);
        }
        if !is_built {
            cargo.arg("--no-verify");
        }
        let failed = |error: std::io::Error| format!("cargo: {error}");
        let mut running = cargo.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let mut told = String::new();
        for line in running
            .stderr
            .take()
            .into_iter()
            .flat_map(|pipe| BufReader::new(pipe).lines())
        {
            let line = line.map_err(failed)?;
            if is_built {
                eprintln!("{line}"); // it takes minutes
            }
            told.push_str(&line);
            told.push('\n');
        }
        let status = running.wait().map_err(failed)?;
        if !status.success() {
            return Err(format!("cargo package: {status}\n{told}"));
        }
        Ok(warnings(&told))
    }

    /// Unpacks the packages next to each other, with a cargo configuration that substitutes them
    /// for a registry's.
    fn unpack(&self, made: &Path, folder: &Path) -> Result<(), String> {
        let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let config_folder = folder.join(".cargo");
        fs::create_dir_all(&config_folder).map_err(|error| failed(&config_folder, error))?;
        let mut config = "[patch.crates-io]\n".to_owned();
        for package in &self.public {
            let mut tar = Command::new("tar");
            tar.arg("-xzf").arg(made.join(package.file_name()));
            let status = tar.arg("-C").arg(folder).status();
            let status = status.map_err(|error| format!("tar: {error}"))?;
            if !status.success() {
                return Err(format!("tar: {} of {status}", package.file_name()));
            }
            let line = format!("{} = {{ path = \"{}\" }}\n", package.name, package.stem());
            config.push_str(&line);
        }
        let path = config_folder.join("config.toml");
        fs::write(&path, config).map_err(|error| failed(&path, error))
    }
}

/// Lines with warnings, except those about tests that are left out.
fn warnings(told: &str) -> Vec<String> {
    let lines = told.lines().filter(|line| line.starts_with("warning: "));
    let unexpected = lines.filter(|line| !line.starts_with(LEFT_OUT));
    unexpected.map(str::to_owned).collect()
}

/// The text of the first line `key = "text"`.
fn quoted(manifest: &str, key: &str) -> Option<String> {
    let mut lines = manifest.lines();
    lines.find_map(|line| {
        let text = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        text.strip_suffix('"').map(str::to_owned)
    })
}

fn target_folder(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_packages_are_told_apart() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n"),
            (
                "crates/a/Cargo.toml",
                "[package]\nname = \"a\"\nversion.workspace = true\n",
            ),
            (
                "xtask/Cargo.toml",
                "[package]\nname = \"x\"\npublish = false\n",
            ),
            (
                "other/Cargo.toml",
                "[package]\nname = \"o\"\npublish = false\n\n[workspace]\n",
            ),
        ]);
        let packages = Packages::of(&tree);
        let files: Vec<_> = packages.public.iter().map(Package::file_name).collect();
        assert_eq!(files, ["a-1.2.3.crate"]);
        assert_eq!(packages.private, ["x"]);
    }

    #[test]
    fn only_tests_may_be_left_out() {
        let told = "warning: ignoring test `a` as `tests/a.rs` is not included in the published package\n   \
                    Packaging b v1.0.0\n\
                    warning: ignoring example `c` as `examples/c.rs` is not included in the published package\n\
                    warning: manifest has no description\n";
        let found = warnings(told);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
