//! The result of a search for the mix of loads with the most late periods.

use punctual_model::Hunt;

use crate::document::{Block, Document, Field, Section, Tone};

/// Returns the result of a search. The check of the machine under the mix is a document of its own.
pub fn hunt(hunt: &Hunt) -> Document {
    let tone = match hunt.worst {
        Some(_) => Tone::Bad,
        None => Tone::Warning,
    };
    let mut fields = vec![Field::toned("worst load", tone, hunt.sentence.as_str())];
    if let Some(worst) = &hunt.worst {
        fields.push(Field {
            is_command: true,
            ..Field::toned("repeat it", Tone::Heading, worst.command.as_str())
        });
    }
    let method = format!(
        "{} mixes in {}, in blocks of {} (seed {})",
        hunt.tried, hunt.took_ns, hunt.block_ns, hunt.seed
    );
    fields.push(Field::new("search", method));
    let notes = hunt.notes.iter();
    fields.extend(notes.map(|note| Field::new("note", note.as_str())));
    let mut document = Document {
        title: "Hunt".to_owned(),
        ..Document::default()
    };
    document.push(Section::new(vec![Block::Fields(fields)]));
    document
}
