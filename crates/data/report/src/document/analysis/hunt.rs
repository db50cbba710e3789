//! The result of a search for the mix of loads with the most late periods.

use punctual_model::{Hunt, counted};

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
        "{}, with {} of {} pairs of loads, in {}: {} blocks of {}, which took {} each (seed {})",
        counted(hunt.tried.into(), "mix", "mixes"),
        hunt.load_pairs,
        hunt.load_pairs_possible,
        hunt.took_ns,
        hunt.blocks,
        hunt.block_ns,
        hunt.block_took_ns,
        hunt.seed
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
