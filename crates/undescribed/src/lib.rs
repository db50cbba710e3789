//! A derive macro with the name and the attributes of schemars' that writes nothing.
//!
//! **For:** a program that shows no schemas, such as the one for boards. The types of the
//! model are described where the feature `schema` is on; without it, describing them would be
//! a third of the time that the model takes to compile.
//!
//! **Knows, must know:** nothing.

use proc_macro::TokenStream;

/// Takes the place of `schemars::JsonSchema`.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn nothing(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
