//! The modules of a folder must not have circular dependencies.
//!
//! A module includes all modules below it. Dependencies between a module and the modules above it
//! do not count, because a table and its rows have a type in common.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// A path of modules below the root of its crate.
type ModulePath = Vec<String>;

/// A name that a `use` imports, with its path.
struct Import {
    name: String,
    path: Vec<String>,
    /// Whether the name is re-exported. If so, an import of the name refers to this path.
    is_public: bool,
}

/// The content of a module's file, without its tests.
#[derive(Default)]
struct Module {
    defined: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in the module's code that have more than one segment, or that could be an imported
    /// name.
    paths: Vec<Vec<String>>,
}

/// Returns those dependencies in a crate's `src` that are part of a circle, each with an example.
pub(crate) fn in_crate(src: &Path) -> Vec<String> {
    Modules::from_root(src).circles()
}

/// Returns the dependencies between the modules of a folder in a crate's `src`, each with an example.
pub(crate) fn between_modules_of(src: &Path, folder: &str) -> Vec<String> {
    let modules = Modules::from_root(src);
    let edges = modules.between_siblings();
    let inside = |path: &ModulePath| path.len() == 2 && path[0] == folder;
    let inner = edges.iter().filter(|(from, _)| inside(from));
    inner
        .flat_map(|(_, others)| others.iter().filter(|(to, _)| inside(to)))
        .map(|(_, example)| example.clone())
        .collect()
}

/// A crate's modules.
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn from_root(root: &Path) -> Self {
        let mut modules = Self(BTreeMap::new());
        let file = ["lib.rs", "main.rs"].map(|name| root.join(name));
        let file = file.into_iter().find(|file| file.exists()).unwrap();
        modules.read(&file, root, Vec::new());
        modules
    }

    /// Reads a file and finds its modules in a folder.
    fn read(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = std::fs::read_to_string(file).unwrap();
        let items = syn::parse_file(&text).unwrap().items;
        self.add(&items, folder, path);
    }

    fn add(&mut self, items: &[Item], folder: &Path, path: ModulePath) {
        let mut module = Module::default();
        for item in items {
            match item {
                Item::Mod(inner) if !is_for_tests(&inner.attrs) && inner.ident != "testing" => {
                    let name = inner.ident.to_string();
                    module.defined.insert(name.clone());
                    let path = [path.clone(), vec![name.clone()]].concat();
                    let below = folder.join(&name);
                    match &inner.content {
                        Some((_, items)) => self.add(items, &below, path),
                        None => self.read(&file_of(&below), &below, path),
                    }
                }
                item => module.visit_item(item),
            }
        }
        self.0.insert(path, module);
    }

    /// Returns the module to which a path from the root leads, and the rest of the path.
    fn enter<'a>(&self, path: &'a [String]) -> (&'a [String], &'a [String]) {
        let is_module = |length: &usize| self.0.contains_key(&path[..*length]);
        path.split_at((0..=path.len()).rev().find(is_module).unwrap_or(0))
    }

    /// Converts a path in a module's code to the path from the root. Returns `None` if the path
    /// leads out of the crate.
    fn rooted(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let start = match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([module, &path[1..]].concat()),
            "super" => &module[..module.len().checked_sub(supers)?],
            name if self.0[module].defined.contains(name) => module,
            _ => return None,
        };
        Some([start, &path[supers..]].concat())
    }

    /// Follows re-exports, and returns the module that defines the item to which a path from the
    /// root leads.
    fn owner(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        let (module, rest) = self.enter(path);
        let found = Some(module.to_vec());
        let Some(name) = rest.first() else {
            return found;
        };
        let code = &self.0[module];
        // The depth is limited, because imports can refer back to themselves.
        if depth == 0 || code.defined.contains(name) {
            return found;
        }
        let behind = |import: &Import, path: &[String]| {
            let start = self.rooted(module, path)?;
            let rest = if import.name == "*" { rest } else { &rest[1..] };
            self.owner(&[&start[..], rest].concat(), depth - 1)
        };
        if let Some(import) = code.imports.iter().find(|import| import.name == *name) {
            return behind(import, &import.path);
        }
        let globs = (code.imports.iter()).filter(|import| import.name == "*" && import.is_public);
        let mut owners = globs.filter_map(|import| behind(import, &import.path));
        owners
            .find(|owner| self.0[owner].defined.contains(name))
            .or(found)
    }

    /// Returns the modules that a module depends on.
    fn dependencies(&self, path: &ModulePath) -> BTreeSet<ModulePath> {
        let module = &self.0[path];
        let handed_on = |import: &&Import| !import.is_public;
        let imported = module.imports.iter().filter(handed_on);
        let imported = imported.map(|import| import.path.clone());
        let named = module.paths.iter().map(|names| {
            let import = (module.imports.iter()).find(|import| import.name == names[0]);
            match import {
                Some(import) => [&import.path, &names[1..]].concat(),
                None => names.clone(),
            }
        });
        let rooted = |names: Vec<String>| self.rooted(path, &names);
        let paths = imported.chain(named).filter_map(rooted);
        paths.filter_map(|names| self.owner(&names, 8)).collect()
    }

    /// Returns the dependencies between modules of the same folder, each with an example.
    fn between_siblings(&self) -> BTreeMap<ModulePath, BTreeMap<ModulePath, String>> {
        let mut edges: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for from in self.0.keys() {
            for to in self.dependencies(from) {
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if common < from.len() && common < to.len() {
                    let example = format!("{} -> {}", from.join("::"), to.join("::"));
                    let ends = |path: &ModulePath| path[..=common].to_vec();
                    edges
                        .entry(ends(from))
                        .or_default()
                        .insert(ends(&to), example);
                }
            }
        }
        edges
    }

    /// Returns the dependencies that form a circle, each with an example.
    fn circles(&self) -> Vec<String> {
        let edges = self.between_siblings();
        let reached = |start: &ModulePath| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(module) = next.pop() {
                for to in edges.get(module).into_iter().flat_map(BTreeMap::keys) {
                    if seen.insert(to) {
                        next.push(to);
                    }
                }
            }
            seen
        };
        let mut circles = Vec::new();
        for (from, others) in &edges {
            for (to, example) in others {
                if reached(to).contains(from) {
                    circles.push(example.clone());
                }
            }
        }
        circles
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name): (&[Attribute], _) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Mod(item) => (&item.attrs, Some(&item.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Use(item) => (&item.attrs, None),
            _ => (&[], None),
        };
        if is_for_tests(attributes) {
            return;
        }
        self.defined.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        import(&item.tree, &mut Vec::new(), is_public, &mut self.imports);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string());
        self.paths.push(names.collect());
        visit::visit_path(self, path);
    }

    /// The content of a macro is not parsed as syntax, so the paths in it are recognised by their
    /// colons.
    fn visit_macro(&mut self, inside: &'ast syn::Macro) {
        self.visit_path(&inside.path);
        let text = inside.tokens.to_string().replace(" :: ", "::");
        let is_in_name = |letter: char| letter.is_alphanumeric() || "_:".contains(letter);
        let words = text.split(|letter| !is_in_name(letter));
        let paths = words.map(|word| word.split("::").map(str::to_owned).collect());
        self.paths
            .extend(paths.filter(|names: &Vec<_>| names.len() > 1));
    }
}

/// Returns the names that a `use` imports.
fn import(tree: &UseTree, path: &mut Vec<String>, is_public: bool, imports: &mut Vec<Import>) {
    let mut add = |name: String, last: Option<String>| {
        let last = last.filter(|name| name != "self");
        imports.push(Import {
            name,
            path: path.iter().cloned().chain(last).collect(),
            is_public,
        });
    };
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            import(&inner.tree, path, is_public, imports);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                import(tree, path, is_public, imports);
            }
        }
        UseTree::Name(name) if name.ident == "self" => {
            add(path.last().cloned().unwrap_or_default(), None);
        }
        UseTree::Name(name) => add(name.ident.to_string(), Some(name.ident.to_string())),
        UseTree::Rename(name) => add(name.rename.to_string(), Some(name.ident.to_string())),
        UseTree::Glob(_) => add("*".to_owned(), None),
    }
}

fn file_of(module: &Path) -> PathBuf {
    let beside = module.with_extension("rs");
    if beside.exists() {
        beside
    } else {
        module.join("mod.rs")
    }
}

/// Returns whether an item is built only for tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        list.is_ok_and(|list| {
            let condition = list.tokens.to_string();
            list.path.is_ident("cfg")
                && !condition.starts_with("not")
                && condition
                    .split(|letter: char| !letter.is_alphanumeric())
                    .any(|word| word == "test")
        })
    })
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "lib.rs",
        "mod a;\nmod b;\nmod c;\npub use b::B;\npub struct Top;",
    );
    write(
        "a.rs",
        "use crate::B;\n#[cfg(test)]\nuse crate::c::C;\npub struct A;",
    );
    // Dependencies of a module on modules below its own folder and above it must not count as a
    // circle.
    write("b/mod.rs", "mod d;\npub struct B(d::D);\nuse crate::Top;");
    write("b/d.rs", "pub struct D;\nuse super::B;");
    write(
        "c.rs",
        "pub struct C;\nfn f() { println!(\"{}\", crate::a::A); }",
    );
    assert_eq!(in_crate(folder.path()), Vec::<String>::new());
    // This circle leads through a macro and through a module below a folder.
    write("b/d.rs", "fn f() { println!(\"{:?}\", crate::c::C); }");
    assert_eq!(in_crate(folder.path()), ["a -> b", "b::d -> c", "c -> a"]);
}
