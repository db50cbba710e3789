//! A derive macro with the name and the attributes of schemars' that writes nothing.
//!
//! **For:** a program that shows no schemas, such as the one for boards. The types of the
//! model are described where the feature `schema` is on; without it, describing them would
//! be a third of the time that the model takes to compile.
//!
//! **Knows:** the names that schemars gives its macro and its attributes.
//!
//! **Must not know:** the types that it is written on.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use proc_macro::TokenStream;

/// Takes the place of `schemars::JsonSchema`.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn nothing(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
