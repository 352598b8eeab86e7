//! The files of a crate import each other without cycles, so that each can be understood after
//! those it needs.
//!
//! A file needs another one if a path in it leads there. Re-exports (`pub use leaf::Leaf`) are
//! followed to their origin. A folder, with its own file and all its content, counts as one file
//! among its siblings. Not counted: `mod` items; a folder's own file for the content of the folder;
//! and code that is compiled only for tests.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::module_paths::{Import, imports, module_of};
use crate::repository_files::{SourceFile, Tree};
use crate::rust_lexer::{Token, starts_with};

/// Permitted cycles: the modules of each inside the crate's `src/`, and the reason.
const MAY_STAY: &[(&[&str], &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in source_folders(tree) {
        let krate = Crate::read(tree, &source);
        for circle in circles(&krate.needs) {
            let names = circle.iter().map(|part| part.join("::"));
            let names: Vec<String> = names.map(|name| format!("{source}{name}")).collect();
            if !MAY_STAY.iter().any(|(modules, _)| *modules == names) {
                findings.push(krate.describe(&circle));
            }
        }
    }
    findings
}

/// The `src/` folder of every package.
fn source_folders(tree: &Tree) -> Vec<String> {
    let manifests = tree.files.iter().map(|file| file.path.as_str());
    let folders = manifests.filter_map(|path| path.strip_suffix("Cargo.toml"));
    folders.map(|folder| format!("{folder}src/")).collect()
}

struct File<'t> {
    path: &'t str,
    module: Vec<&'t str>,
    /// Its code without code that is compiled only for tests.
    tokens: Vec<Token>,
    imports: Vec<Import>,
    /// The names of its own items.
    items: BTreeSet<String>,
    /// The modules that it declares only for tests.
    modules_for_tests: BTreeSet<String>,
}

struct Crate<'t> {
    files: Vec<File<'t>>,
    by_module: BTreeMap<Vec<&'t str>, usize>,
    needs: Needs<'t>,
}

/// A module with all its content.
type Part<'t> = Vec<&'t str>;

/// For each part the siblings that it needs, each with a file and the line that proves it.
type Needs<'t> = BTreeMap<Part<'t>, BTreeMap<Part<'t>, (usize, usize)>>;

impl<'t> Crate<'t> {
    fn read(tree: &'t Tree, source: &str) -> Self {
        let mut files: Vec<File<'_>> = Vec::new();
        for file in tree.files.iter().filter(|file| file.is_rust()) {
            let Some(inside) = file.path.strip_prefix(source) else {
                continue;
            };
            // Each file of `bin/` is a separate crate.
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
            needs: Needs::new(),
        };
        krate.needs = krate.needs();
        krate
    }

    fn needs(&self) -> Needs<'t> {
        let mut needs = Needs::new();
        for (at, file) in self.files.iter().enumerate() {
            for import in &file.imports {
                let Some(other) = self.file_of(&import.names(), 0) else {
                    continue;
                };
                let module = &self.files[other].module;
                let ways = file.module.iter().zip(module);
                let shared = ways.take_while(|(here, there)| here == there).count();
                let (Some(from), Some(to)) = (file.module.get(..=shared), module.get(..=shared))
                else {
                    continue;
                };
                let of_part = needs.entry(from.to_vec()).or_default();
                of_part.entry(to.to_vec()).or_insert((at, import.line()));
            }
        }
        needs
    }

    /// The file of the item that a path names: the file of the longest prefix that is a module, or
    /// the file from which that re-exports the next name.
    fn file_of(&self, path: &[&str], followed: usize) -> Option<usize> {
        let (length, at) = (0..=path.len())
            .rev()
            .find_map(|length| Some((length, *self.by_module.get(&path[..length])?)))?;
        let file = &self.files[at];
        let Some(name) = path.get(length) else {
            return Some(at);
        };
        // Re-exports that lead back to themselves are invalid Rust; they end here.
        if file.items.contains(*name) || followed > 8 {
            return Some(at);
        }
        let on_from = |import: &Import| {
            let mut target = import.names();
            if import.bound.as_deref() == Some("*") {
                target.pop();
                target.push(name);
                // A glob provides the name only if its module does.
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

    /// Names the parts, and for each the parts of the cycle that it needs.
    fn describe(&self, circle: &[Part<'_>]) -> Finding {
        let mut says = Vec::new();
        let mut path = "";
        for part in circle {
            for (other, (file, line)) in &self.needs[part] {
                if circle.contains(other) {
                    path = self.files[*file].path;
                    says.push(format!(
                        "\n         {path}:{line} needs `{}`",
                        other.join("::")
                    ));
                }
            }
        }
        let advice = format!(
            "{} files or folders import each other in a circle; move what both sides need into a file below \
             them:{}",
            circle.len(),
            says.concat()
        );
        Finding::new(path, 0, advice)
    }
}

/// The strongly connected components of parts, by Tarjan's algorithm.
fn circles<'t>(needs: &Needs<'t>) -> Vec<Vec<Part<'t>>> {
    let mut search = Search {
        needs,
        visited: BTreeMap::new(),
        open: Vec::new(),
        circles: Vec::new(),
    };
    for part in needs.keys() {
        if !search.visited.contains_key(part) {
            search.visit(part);
        }
    }
    search.circles
}

struct Search<'a, 't> {
    needs: &'a Needs<'t>,
    /// The parts' numbers, in order of visits.
    visited: BTreeMap<&'a Part<'t>, usize>,
    open: Vec<&'a Part<'t>>,
    circles: Vec<Vec<Part<'t>>>,
}

impl<'a, 't> Search<'a, 't> {
    /// Returns the lowest number of an open part that this one reaches.
    fn visit(&mut self, part: &'a Part<'t>) -> usize {
        let number = self.visited.len();
        let mut lowest = number;
        self.visited.insert(part, number);
        self.open.push(part);
        for other in self.needs.get(part).into_iter().flat_map(BTreeMap::keys) {
            match self.visited.get(other) {
                None => lowest = lowest.min(self.visit(other)),
                Some(met) if self.open.contains(&other) => lowest = lowest.min(*met),
                Some(_) => {}
            }
        }
        if lowest == number {
            let begins = self.open.iter().position(|open| *open == part).unwrap_or(0);
            let mut circle: Vec<_> = self.open.split_off(begins).into_iter().cloned().collect();
            circle.sort_unstable();
            if circle.len() > 1 {
                self.circles.push(circle);
            }
        }
        lowest
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

    /// Whether this is one of the modules that `other` declares only for tests, or is inside one.
    fn is_for_tests_of(&self, other: &Self) -> bool {
        let inside = self.module.strip_prefix(&other.module[..]);
        let first = inside.and_then(|inside| inside.first());
        first.is_some_and(|first| other.modules_for_tests.contains(*first))
    }
}

/// The code without the items under `#[cfg(test)]`, `#[cfg(loom)]` and `#[cfg(all(test, …))]`, and
/// the modules among these.
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

/// The length up to its `;` or the end of its body; for a field, a statement or an arm, up to the
/// comma.
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

/// The number of tokens from the bracket at the start to its closing one.
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

/// The names of the items outside of all braces.
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

    fn found_in(files: &[(&str, &str)]) -> Vec<String> {
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
        assert!(found_in(&[root, x, y]).is_empty());
    }

    #[test]
    fn a_circle_is_found_with_every_file_of_it() {
        let x = ("a/src/x.rs", "\nuse crate::y::Y;");
        let y = ("a/src/y/mod.rs", "fn f() { super::z::g() }");
        let z = ("a/src/z.rs", "use crate::{x::X, y};");
        let other = ("a/src/other.rs", "use crate::{x, y, z};");
        let found = found_in(&[x, y, z, other]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(": 3 files or folders"), "{found:?}");
        for says in [
            "a/src/x.rs:2 needs `y`",
            "a/src/y/mod.rs:1 needs `z`",
            "a/src/z.rs:1 needs `x`",
        ] {
            assert!(found[0].contains(says), "{says}: {found:?}");
        }
    }

    #[test]
    fn a_folder_with_what_lies_in_it_counts_as_one() {
        let x = ("a/src/x.rs", "pub struct X; use crate::y::one::One;");
        let one = ("a/src/y/one.rs", "pub struct One;");
        let two = ("a/src/y/two.rs", "use crate::x::X;");
        let found = found_in(&[x, one, two, ("a/src/y/mod.rs", "")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a/src/x.rs:1 needs `y`"), "{found:?}");
        assert!(found[0].contains("a/src/y/two.rs:1 needs `x`"), "{found:?}");
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
            assert_eq!(found_in(&[folder(passes_on), x, z]).len(), 1, "{passes_on}");
        }
        let own = folder("mod x; mod z; pub use x::X; pub struct Z;");
        assert!(found_in(&[own, x, z]).is_empty());
    }

    #[test]
    fn a_folder_and_what_lies_in_it_are_one() {
        let folder = ("a/src/y/mod.rs", "mod x; use x::X; pub struct Y;");
        let x = ("a/src/y/x.rs", "use super::Y; pub struct X;");
        assert!(found_in(&[folder, x]).is_empty());
    }

    #[test]
    fn what_is_compiled_for_tests_alone_does_not_count() {
        let y = ("a/src/y.rs", "use crate::x::X;");
        for x in [
            "#[cfg(test)] mod tests { use crate::y::Y; }",
            "#[cfg(all(test, not(loom)))] #[expect(x)] use crate::y::Y; struct A;",
            "struct S { #[cfg(test)] y: crate::y::Y, z: u8 }",
        ] {
            assert!(found_in(&[("a/src/x.rs", x), y]).is_empty(), "{x}");
        }
        let more = ("a/src/x/more.rs", "use crate::y::Y;");
        let x = |text| ("a/src/x.rs", text);
        assert!(found_in(&[x("#[cfg(test)] mod more;"), more, y]).is_empty());
        assert_eq!(found_in(&[x("mod more;"), more, y]).len(), 1);
        for x in [
            "#[cfg(not(test))] use crate::y::Y;",
            "#[cfg(any(test, feature))] use crate::y::Y;",
            "#[cfg(test)] mod tests {} use crate::y::Y;",
            "struct S { #[cfg(test)] x: u8, y: crate::y::Y }",
        ] {
            assert_eq!(found_in(&[("a/src/x.rs", x), y]).len(), 1, "{x}");
        }
    }

    #[test]
    fn crates_and_programs_are_apart() {
        let y = ("a/src/y.rs", "use crate::x::X;");
        let x = ("a/src/bin/x.rs", "use crate::y::Y;");
        let other = ("b/src/x.rs", "use crate::y::Y;");
        assert!(found_in(&[x, y, ("b/Cargo.toml", ""), other]).is_empty());
    }
}
