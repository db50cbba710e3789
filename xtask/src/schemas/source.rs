//! The types in the source: finds the definition that a type's path means.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Fields, Item, Token, UseTree, Variant};

/// Path of a module: the name of its crate, then its modules.
pub(super) type Module = Vec<String>;

/// Content of a struct or an enum.
pub(super) enum Body {
    Struct(Fields),
    Enum(Vec<Variant>),
}

/// A struct or an enum.
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) module: Module,
    pub(super) attributes: Vec<Attribute>,
    /// Names of its type parameters.
    pub(super) parameters: Vec<String>,
    pub(super) body: Body,
}

#[derive(Default)]
struct Names {
    types: BTreeMap<String, Rc<Definition>>,
    /// Types that are other names of types.
    aliases: BTreeMap<String, Rc<syn::Type>>,
    /// Imported names, and the paths that they mean.
    imports: Vec<(String, Vec<String>)>,
    modules: Vec<String>,
}

/// The modules of those crates that were needed so far.
pub(super) struct Sources {
    root: PathBuf,
    modules: BTreeMap<Module, Names>,
}

/// What a path means.
pub(super) enum Found {
    Type(Rc<Definition>),
    Alias(Module, Rc<syn::Type>),
    /// A type of another package.
    Foreign,
}

impl Sources {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            modules: BTreeMap::new(),
        }
    }

    /// Finds the definition of a path in a module.
    pub(super) fn find(&mut self, module: &Module, path: &[String]) -> Result<Found> {
        self.follow(module, path, 8)
    }

    fn follow(&mut self, module: &Module, path: &[String], depth: usize) -> Result<Found> {
        self.read_crate(&module[0])?;
        let [first, rest @ ..] = path else {
            bail!("no type, but a module");
        };
        if depth == 0 {
            return Ok(Found::Foreign);
        }
        match first.as_str() {
            "crate" => return self.follow(&module[..1].to_vec(), rest, depth),
            "self" => return self.follow(module, rest, depth),
            "super" => return self.follow(&module[..module.len() - 1].to_vec(), rest, depth),
            _ => {}
        }
        if let Some(name) = first.strip_prefix("punctual_") {
            return self.follow(&vec![name.to_owned()], rest, depth);
        }
        let Some(names) = self.modules.get(module) else {
            return Ok(Found::Foreign);
        };
        if rest.is_empty() {
            if let Some(found) = names.types.get(first) {
                return Ok(Found::Type(Rc::clone(found)));
            }
            if let Some(alias) = names.aliases.get(first) {
                return Ok(Found::Alias(module.clone(), Rc::clone(alias)));
            }
        } else if names.modules.contains(first) {
            let inner = [module.as_slice(), std::slice::from_ref(first)].concat();
            return self.follow(&inner, rest, depth);
        }
        let imported = names.imports.iter().filter(|(name, _)| name == first);
        let globs = names.imports.iter().filter(|(name, _)| name == "*");
        let paths: Vec<Vec<String>> = (imported.map(|(_, to)| [to, rest].concat()))
            .chain(globs.map(|(_, to)| [to.as_slice(), path].concat()))
            .collect();
        for path in paths {
            match self.follow(module, &path, depth - 1)? {
                Found::Foreign => {}
                found => return Ok(found),
            }
        }
        Ok(Found::Foreign)
    }

    fn read_crate(&mut self, name: &str) -> Result<()> {
        let module = vec![name.to_owned()];
        if self.modules.contains_key(&module) {
            return Ok(());
        }
        let groups = fs::read_dir(self.root.join("crates"))?;
        let folders: Vec<PathBuf> = groups
            .map(|group| Ok(group?.path().join(name.replace('_', "-"))))
            .collect::<Result<_>>()?;
        let src = (folders.iter().map(|folder| folder.join("src"))).find(|src| src.is_dir());
        let src = src.with_context(|| format!("no crate {name}"))?;
        let top = ["lib.rs", "main.rs"].map(|file| src.join(file));
        let top = top.into_iter().find(|file| file.is_file());
        self.read(&top.context("neither lib.rs nor main.rs")?, &src, module)
    }

    fn read(&mut self, file: &Path, folder: &Path, module: Module) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        self.add(parsed.items, folder, module)
    }

    fn add(&mut self, items: Vec<Item>, folder: &Path, module: Module) -> Result<()> {
        let mut names = Names::default();
        for item in items {
            match item {
                Item::Mod(inner) if !is_for_tests(&inner.attrs) => {
                    let name = inner.ident.to_string();
                    let below = folder.join(&name);
                    let path = [module.as_slice(), std::slice::from_ref(&name)].concat();
                    names.modules.push(name);
                    match inner.content {
                        Some((_, items)) => self.add(items, &below, path)?,
                        None => {
                            let beside = below.with_extension("rs");
                            let file = Some(beside).filter(|file| file.is_file());
                            self.read(&file.unwrap_or_else(|| below.join("mod.rs")), &below, path)?;
                        }
                    }
                }
                Item::Struct(item) => {
                    let body = Body::Struct(item.fields);
                    names.define(&module, &item.ident, item.attrs, &item.generics, body);
                }
                Item::Enum(item) => {
                    let body = Body::Enum(item.variants.into_iter().collect());
                    names.define(&module, &item.ident, item.attrs, &item.generics, body);
                }
                Item::Type(item) => {
                    names
                        .aliases
                        .insert(item.ident.to_string(), Rc::new(*item.ty));
                }
                Item::Macro(item) if item.mac.path.is_ident("event_kinds") => {
                    let events: Events = item.mac.parse_body()?;
                    let head: syn::ItemEnum = syn::parse_str(EVENT_KIND)?;
                    let body = Body::Enum(events.0);
                    names.define(&module, &head.ident, head.attrs, &head.generics, body);
                }
                Item::Use(item) => import(&item.tree, &mut Vec::new(), &mut names.imports),
                _ => {}
            }
        }
        self.modules.insert(module, names);
        Ok(())
    }
}

impl Names {
    fn define(
        &mut self,
        module: &Module,
        name: &syn::Ident,
        attributes: Vec<Attribute>,
        generics: &syn::Generics,
        body: Body,
    ) {
        let definition = Definition {
            name: name.to_string(),
            module: module.clone(),
            attributes,
            parameters: generics
                .type_params()
                .map(|one| one.ident.to_string())
                .collect(),
            body,
        };
        self.types.insert(name.to_string(), Rc::new(definition));
    }
}

/// What the macro `event_kinds!` writes before the kinds of events.
const EVENT_KIND: &str = r#"
    /// The kind of an event. Its fields have the names from the kernel's `format` files in
    /// tracefs. The window's `symbols` resolve addresses.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum EventKind {}
"#;

/// The rows of `event_kinds!`. Only their kinds are read: comment, name and fields.
struct Events(Vec<Variant>);

impl Parse for Events {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<syn::Ident>()?;
        input.parse::<Token![=>]>()?;
        let mut kinds = Vec::new();
        while !input.is_empty() {
            kinds.push(Variant {
                attrs: input.call(Attribute::parse_outer)?,
                ident: input.parse()?,
                fields: Fields::Named(input.parse()?),
                discriminant: None,
            });
            skip_to_semicolon(input)?;
            while input.peek(Token![<-]) {
                skip_to_semicolon(input)?;
            }
        }
        Ok(Self(kinds))
    }
}

fn skip_to_semicolon(input: ParseStream<'_>) -> syn::Result<()> {
    while !input.peek(Token![;]) {
        input.step(|cursor| match cursor.token_tree() {
            Some((_, rest)) => Ok(((), rest)),
            None => Err(cursor.error("a semicolon is missing")),
        })?;
    }
    input.parse::<Token![;]>().map(drop)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        list.is_ok_and(|list| list.path.is_ident("cfg") && list.tokens.to_string().contains("test"))
    })
}

fn import(tree: &UseTree, path: &mut Vec<String>, imports: &mut Vec<(String, Vec<String>)>) {
    let full = |path: &[String], name: &syn::Ident| -> Vec<String> {
        let name = Some(name.to_string()).filter(|name| name != "self");
        path.iter().cloned().chain(name).collect()
    };
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            import(&inner.tree, path, imports);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                import(tree, path, imports);
            }
        }
        UseTree::Name(name) => {
            let full = full(path, &name.ident);
            imports.push((full.last().cloned().unwrap_or_default(), full));
        }
        UseTree::Rename(name) => imports.push((name.rename.to_string(), full(path, &name.ident))),
        UseTree::Glob(_) => imports.push(("*".to_owned(), path.clone())),
    }
}
