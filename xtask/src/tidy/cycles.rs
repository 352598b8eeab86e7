//! The files of a crate import each other in one direction, so that each can be understood after those it needs.
//!
//! A file needs another one if a path in it leads there. What a module passes on (`pub use leaf::Leaf`) is looked up
//! where it comes from. Not counted: `mod` items; a folder's file and what lies in the folder, which are one house;
//! and what is compiled for tests alone.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::imports::{Import, imports, module_of};
use crate::rust_text::{Token, starts_with};
use crate::tree::{SourceFile, Tree};

/// Circles that may stay: the files of one, and why.
const MAY_STAY: &[(&[&str], &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in source_folders(tree) {
        let krate = Crate::read(tree, &source);
        for circle in krate.circles() {
            let paths: Vec<&str> = circle.iter().map(|at| krate.files[*at].path).collect();
            if !MAY_STAY.iter().any(|(files, _)| *files == paths) {
                findings.push(krate.describe(&circle));
            }
        }
    }
    findings
}

/// The `src/` of every package.
fn source_folders(tree: &Tree) -> Vec<String> {
    let manifests = tree.files.iter().map(|file| file.path.as_str());
    let folders = manifests.filter_map(|path| path.strip_suffix("Cargo.toml"));
    folders.map(|folder| format!("{folder}src/")).collect()
}

struct File<'t> {
    path: &'t str,
    module: Vec<&'t str>,
    /// Its code without what is compiled for tests alone.
    tokens: Vec<Token>,
    imports: Vec<Import>,
    /// What its own items are called.
    items: BTreeSet<String>,
    /// The modules that it declares for tests alone.
    modules_for_tests: BTreeSet<String>,
}

struct Crate<'t> {
    files: Vec<File<'t>>,
    by_module: BTreeMap<Vec<&'t str>, usize>,
    /// For each file those that it needs, and a line that says so.
    needs: Vec<BTreeMap<usize, usize>>,
}

impl<'t> Crate<'t> {
    fn read(tree: &'t Tree, source: &str) -> Self {
        let mut files: Vec<File<'_>> = Vec::new();
        for file in tree.files.iter().filter(|file| file.is_rust()) {
            let Some(inside) = file.path.strip_prefix(source) else {
                continue;
            };
            // Each file of `bin/` is a crate of its own.
            if !inside.starts_with("bin/") {
                files.push(File::new(file, module_of(inside)));
            }
        }
        let is_for_tests = |file: &File<'_>| files.iter().any(|other| file.is_for_tests_of(other));
        let keep: Vec<bool> = files.iter().map(|file| !is_for_tests(file)).collect();
        let mut kept = keep.into_iter();
        files.retain(|_| kept.next().unwrap_or(true));
        let modules: Vec<Vec<&str>> = files.iter().map(|file| file.module.clone()).collect();
        for file in &mut files {
            let depth = file.module.len();
            let child = |module: &Vec<&'t str>| {
                (module.len() == depth + 1 && module.starts_with(&file.module))
                    .then(|| module[depth])
            };
            let children: Vec<&str> = modules.iter().filter_map(child).collect();
            file.imports = imports(&file.tokens, &file.module, &children);
        }
        let by_module = modules.into_iter().zip(0..).collect();
        let mut krate = Self {
            files,
            by_module,
            needs: Vec::new(),
        };
        krate.needs = (0..krate.files.len())
            .map(|at| krate.needs_of(at))
            .collect();
        krate
    }

    fn needs_of(&self, at: usize) -> BTreeMap<usize, usize> {
        let own = &self.files[at].module;
        let mut needs = BTreeMap::new();
        for import in &self.files[at].imports {
            let Some(other) = self.file_of(&import.names(), 0) else {
                continue;
            };
            let module = &self.files[other].module;
            if !module.starts_with(own) && !own.starts_with(module) {
                needs.entry(other).or_insert(import.line());
            }
        }
        needs
    }

    /// The file that holds what a path names: that of the longest beginning that is a module, or the one
    /// from which this has the next name.
    fn file_of(&self, path: &[&str], followed: usize) -> Option<usize> {
        let (length, at) = (0..=path.len())
            .rev()
            .find_map(|length| Some((length, *self.by_module.get(&path[..length])?)))?;
        let file = &self.files[at];
        let Some(name) = path.get(length) else {
            return Some(at);
        };
        // Names that lead back to themselves are no Rust; they end here.
        if file.items.contains(*name) || followed > 8 {
            return Some(at);
        }
        let on_from = |import: &Import| {
            let mut target = import.names();
            if import.bound.as_deref() == Some("*") {
                target.pop();
                target.push(name);
                // A glob has the name only if its module does.
                let found = self.file_of(&target, followed + 1)?;
                return self.files[found].items.contains(*name).then_some(found);
            }
            if import.bound.as_deref() != Some(*name) {
                return None;
            }
            target.extend(&path[length + 1..]);
            self.file_of(&target, followed + 1)
        };
        Some(file.imports.iter().find_map(on_from).unwrap_or(at))
    }

    /// The groups of files in which each leads to each, by Tarjan's algorithm.
    fn circles(&self) -> Vec<Vec<usize>> {
        let mut search = Search {
            needs: &self.needs,
            numbers: vec![None; self.files.len()],
            lowest: vec![0; self.files.len()],
            open: Vec::new(),
            circles: Vec::new(),
        };
        for at in 0..self.files.len() {
            if search.numbers[at].is_none() {
                search.visit(at, &mut 0);
            }
        }
        search.circles
    }

    /// Names the files, and of each the ones of the circle that it needs.
    fn describe(&self, circle: &[usize]) -> Finding {
        let mut says = Vec::new();
        for &at in circle {
            for (other, line) in &self.needs[at] {
                if circle.contains(other) {
                    let (from, to) = (&self.files[at].path, self.files[*other].module.join("::"));
                    says.push(format!("\n         {from}:{line} needs `{to}`"));
                }
            }
        }
        let advice = format!(
            "{} files import each other in a circle; move what both sides need into a file below them:{}",
            circle.len(),
            says.concat()
        );
        Finding::new(self.files[circle[0]].path, 0, advice)
    }
}

struct Search<'a> {
    needs: &'a [BTreeMap<usize, usize>],
    numbers: Vec<Option<usize>>,
    lowest: Vec<usize>,
    open: Vec<usize>,
    circles: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, at: usize, next: &mut usize) {
        let number = *next;
        *next += 1;
        self.numbers[at] = Some(number);
        self.lowest[at] = number;
        self.open.push(at);
        for &other in self.needs[at].keys() {
            match self.numbers[other] {
                None => {
                    self.visit(other, next);
                    self.lowest[at] = self.lowest[at].min(self.lowest[other]);
                }
                Some(met) if self.open.contains(&other) => {
                    self.lowest[at] = self.lowest[at].min(met);
                }
                Some(_) => {}
            }
        }
        if self.lowest[at] == number {
            let begins = self.open.iter().position(|open| *open == at).unwrap_or(0);
            let mut circle = self.open.split_off(begins);
            circle.sort_unstable();
            if circle.len() > 1 {
                self.circles.push(circle);
            }
        }
    }
}

impl<'t> File<'t> {
    fn new(file: &'t SourceFile, module: Vec<&'t str>) -> Self {
        let (tokens, modules_for_tests) = without_tests(&file.tokens);
        Self {
            path: &file.path,
            module,
            items: items(&tokens),
            modules_for_tests,
            tokens,
            imports: Vec::new(),
        }
    }

    /// Whether it is one of the modules that `other` declares for tests alone, or lies in one.
    fn is_for_tests_of(&self, other: &Self) -> bool {
        let inside = self.module.strip_prefix(&other.module[..]);
        let first = inside.and_then(|inside| inside.first());
        first.is_some_and(|first| other.modules_for_tests.contains(*first))
    }
}

/// The code without the items under `#[cfg(test)]`, `#[cfg(loom)]` and `#[cfg(all(test, …))]`, and the modules
/// among these.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, BTreeSet<String>) {
    let mut kept = Vec::new();
    let mut modules = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        let here = &tokens[at..];
        if !is_for_tests(here) {
            kept.push(here[0].clone());
            at += 1;
            continue;
        }
        let mut item = here;
        while starts_with(item, &["#", "["]) {
            item = &item[1 + enclosed(&item[1..])..];
        }
        if let [word, name, ..] = item
            && word.text == "mod"
        {
            modules.insert(name.text.clone());
        }
        at += here.len() - item.len() + length_of_item(item);
    }
    (kept, modules)
}

fn is_for_tests(tokens: &[Token]) -> bool {
    let all = starts_with(tokens, &["#", "[", "cfg", "(", "all", "("]);
    if !all && !starts_with(tokens, &["#", "[", "cfg", "("]) {
        return false;
    }
    let conditions = &tokens[if all { 6 } else { 4 }..];
    let conditions = conditions.iter().take_while(|token| token.text != "]");
    let mut depth = 0;
    for token in conditions {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            "test" | "loom" if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Up to its `;` or the end of its body; of a field, a statement or an arm, up to the comma.
fn length_of_item(tokens: &[Token]) -> usize {
    const WORDS: [&str; 14] = [
        "async", "const", "enum", "extern", "fn", "impl", "mod", "pub", "static", "struct",
        "trait", "type", "unsafe", "use",
    ];
    let is_item = (tokens.first()).is_some_and(|first| WORDS.contains(&first.text.as_str()));
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "}" | ")" => return at,
            "{" => return at + enclosed(&tokens[at..]),
            "(" | "[" => at += enclosed(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

/// How many tokens there are from the bracket at the beginning to the one that closes it.
fn enclosed(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The names of the items outside all braces.
fn items(tokens: &[Token]) -> BTreeSet<String> {
    const WORDS: [&str; 9] = [
        "const",
        "enum",
        "fn",
        "macro_rules",
        "static",
        "struct",
        "trait",
        "type",
        "union",
    ];
    let mut names = BTreeSet::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].text == "{" {
            at += enclosed(&tokens[at..]);
            continue;
        }
        if WORDS.contains(&tokens[at].text.as_str()) {
            let after = tokens[at + 1..]
                .iter()
                .find(|token| !matches!(token.text.as_str(), "!" | "mut"));
            names.extend(after.map(|name| name.text.clone()));
        }
        at += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("a/Cargo.toml", "")];
        all.extend(files);
        let found = check(&Tree::of(&all));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn one_direction_is_fine() {
        let root = (
            "a/src/lib.rs",
            "mod x; mod y; pub use x::X; fn f() { crate::y::g() }",
        );
        let x = ("a/src/x.rs", "use crate::y::Y; pub struct X; use crate::f;");
        let y = ("a/src/y.rs", "pub struct Y; // crate::x::X");
        assert!(circles(&[root, x, y]).is_empty());
    }

    #[test]
    fn a_circle_is_found_with_every_file_of_it() {
        let x = ("a/src/x.rs", "\nuse crate::y::Y;");
        let y = ("a/src/y/mod.rs", "fn f() { super::z::g() }");
        let z = ("a/src/z.rs", "use crate::{x::X, y};");
        let other = ("a/src/other.rs", "use crate::{x, y, z};");
        let found = circles(&[x, y, z, other]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a/src/x.rs: 3 files"), "{found:?}");
        for says in [
            "a/src/x.rs:2 needs `y`",
            "a/src/y/mod.rs:1 needs `z`",
            "a/src/z.rs:1 needs `x`",
        ] {
            assert!(found[0].contains(says), "{says}: {found:?}");
        }
    }

    #[test]
    fn what_a_folder_passes_on_is_looked_up() {
        let folder = |text| ("a/src/y/mod.rs", text);
        let x = ("a/src/y/x.rs", "pub struct X; use super::Z;");
        let z = ("a/src/y/z.rs", "pub struct Z; use crate::y::X;");
        for passes_on in [
            "mod x; mod z; pub use x::X; pub use z::Z;",
            "mod x; mod z; pub use self::x::{self, X}; pub(crate) use crate::y::z::*;",
            "mod x; mod z; use x::*; use z::*;",
        ] {
            assert_eq!(circles(&[folder(passes_on), x, z]).len(), 1, "{passes_on}");
        }
        let own = folder("mod x; mod z; pub use x::X; pub struct Z;");
        assert!(circles(&[own, x, z]).is_empty());
    }

    #[test]
    fn a_folder_and_what_lies_in_it_are_one() {
        let folder = ("a/src/y/mod.rs", "mod x; use x::X; pub struct Y;");
        let x = ("a/src/y/x.rs", "use super::Y; pub struct X;");
        assert!(circles(&[folder, x]).is_empty());
    }

    #[test]
    fn what_is_compiled_for_tests_alone_does_not_count() {
        let y = ("a/src/y.rs", "use crate::x::X;");
        for x in [
            "#[cfg(test)] mod tests { use crate::y::Y; }",
            "#[cfg(all(test, not(loom)))] #[expect(x)] use crate::y::Y; struct A;",
            "#[cfg(test)] mod more; struct S { #[cfg(test)] y: crate::y::Y, z: u8 }",
        ] {
            let more = ("a/src/x/more.rs", "use crate::y::Y;");
            assert!(circles(&[("a/src/x.rs", x), more, y]).is_empty(), "{x}");
        }
        for x in [
            "#[cfg(not(test))] use crate::y::Y;",
            "#[cfg(any(test, feature))] use crate::y::Y;",
            "#[cfg(test)] mod tests {} use crate::y::Y;",
            "struct S { #[cfg(test)] x: u8, y: crate::y::Y }",
        ] {
            assert_eq!(circles(&[("a/src/x.rs", x), y]).len(), 1, "{x}");
        }
    }

    #[test]
    fn crates_and_programs_are_apart() {
        let y = ("a/src/y.rs", "use crate::x::X;");
        let x = ("a/src/bin/x.rs", "use crate::y::Y;");
        let other = ("b/src/x.rs", "use crate::y::Y;");
        assert!(circles(&[x, y, ("b/Cargo.toml", ""), other]).is_empty());
    }
}
