//! The font of a page: the glyphs that the page uses, with their widths and their characters.

use std::collections::HashMap;

use flate2::Crc;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Filter, Finish, Name, Pdf, Rect, Ref, Str};
use subsetter::GlyphRemapper;
use ttf_parser::{Face, GlyphId};

use super::{compressed, failed};
use crate::ReportError;

/// A code is used as it stands, and selects a glyph.
const IDENTITY: SystemInfo = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};
const CMAP: Name = Name(b"Characters");

/// The characters of a page. Each has a code of its own, so that the text can be selected even if
/// several characters share a glyph, for example the box that represents unknown characters.
pub(super) struct Embedded<'a> {
    data: &'a [u8],
    face: Face<'a>,
    /// The character of each code, beginning with code 1. Code 0 is a box without a character.
    characters: Vec<char>,
    codes: HashMap<char, u16>,
}

impl<'a> Embedded<'a> {
    pub(super) fn new(data: &'a [u8]) -> Result<Self, ReportError> {
        Ok(Self {
            data,
            face: Face::parse(data, 0).map_err(|error| failed(&error))?,
            characters: Vec::new(),
            codes: HashMap::new(),
        })
    }

    /// Returns the code of a character. Characters beyond the first 65535 get code 0.
    fn code(&mut self, character: char) -> u16 {
        *self.codes.entry(character).or_insert_with(|| {
            let code = u16::try_from(self.characters.len() + 1).unwrap_or_default();
            if code != 0 {
                self.characters.push(character);
            }
            code
        })
    }

    /// Returns the codes of a text, as they are written into a page.
    pub(super) fn encode(&mut self, text: &str) -> Vec<u8> {
        let codes = text.chars().map(|character| self.code(character));
        codes.flat_map(u16::to_be_bytes).collect()
    }

    /// Returns the width of a text, in units of its size.
    pub(super) fn width(&self, text: &str) -> f32 {
        let units: f32 = text
            .chars()
            .map(|character| self.advance(self.glyph(character)))
            .sum();
        units / f32::from(self.face.units_per_em())
    }

    /// Returns the glyph of a character, or the box that represents unknown characters.
    fn glyph(&self, character: char) -> GlyphId {
        self.face.glyph_index(character).unwrap_or_default()
    }

    fn advance(&self, glyph: GlyphId) -> f32 {
        f32::from(self.face.glyph_hor_advance(glyph).unwrap_or_default())
    }

    /// Returns the glyph of each code.
    fn glyphs(&self) -> impl Iterator<Item = GlyphId> {
        let used = self
            .characters
            .iter()
            .map(|character| self.glyph(*character));
        std::iter::once(GlyphId::default()).chain(used)
    }

    /// Writes the font, and the glyphs that the codes select, as the object `font`.
    pub(super) fn write(
        &self,
        pdf: &mut Pdf,
        font: Ref,
        free: &mut Ref,
    ) -> Result<(), ReportError> {
        let mut kept = GlyphRemapper::new();
        let map: Vec<u8> = self
            .glyphs()
            .flat_map(|glyph| kept.remap(glyph.0).to_be_bytes())
            .collect();
        let subset = subsetter::subset(self.data, 0, &kept).map_err(|error| failed(&error))?;
        let name = format!("{}+DejaVuSans", tag(&self.characters));
        let name = Name(name.as_bytes());
        let (cid_font, descriptor, file) = (free.bump(), free.bump(), free.bump());
        let (to_glyph, to_unicode) = (free.bump(), free.bump());
        pdf.type0_font(font)
            .base_font(name)
            .encoding_predefined(Name(b"Identity-H"))
            .descendant_font(cid_font)
            .to_unicode(to_unicode);
        let mut cid = pdf.cid_font(cid_font);
        cid.subtype(CidFontType::Type2)
            .base_font(name)
            .system_info(IDENTITY)
            .font_descriptor(descriptor)
            .cid_to_gid_map_stream(to_glyph);
        let widths = self
            .glyphs()
            .map(|glyph| self.thousandths(self.advance(glyph)));
        cid.widths().consecutive(0, widths);
        cid.finish();
        self.describe(pdf, descriptor, name, file);
        for (id, bytes) in [(to_glyph, &map), (to_unicode, &self.to_unicode())] {
            pdf.stream(id, &compressed(bytes)?)
                .filter(Filter::FlateDecode);
        }
        let length = i32::try_from(subset.len()).map_err(|error| failed(&error))?;
        pdf.stream(file, &compressed(&subset)?)
            .filter(Filter::FlateDecode)
            .pair(Name(b"Length1"), length);
        Ok(())
    }

    /// Writes what a reader needs to replace the font.
    fn describe(&self, pdf: &mut Pdf, descriptor: Ref, name: Name, file: Ref) {
        let scaled = |units: i16| self.thousandths(f32::from(units));
        let bounds = self.face.global_bounding_box();
        let capital = self.face.capital_height();
        // The font does not state the width of its stems. The letter I is one.
        let stem = self.face.glyph_bounding_box(self.glyph('I'));
        pdf.font_descriptor(descriptor)
            .name(name)
            .flags(FontFlags::SYMBOLIC)
            .bbox(Rect::new(
                scaled(bounds.x_min),
                scaled(bounds.y_min),
                scaled(bounds.x_max),
                scaled(bounds.y_max),
            ))
            .italic_angle(0.0)
            .ascent(scaled(self.face.ascender()))
            .descent(scaled(self.face.descender()))
            .cap_height(scaled(capital.unwrap_or(self.face.ascender())))
            .stem_v(stem.map_or(0.0, |stem| scaled(stem.width())))
            .font_file2(file);
    }

    /// Converts units of the font to thousandths of its size, the unit of a PDF.
    fn thousandths(&self, units: f32) -> f32 {
        units * 1000.0 / f32::from(self.face.units_per_em())
    }

    /// Returns the character of each code, for readers that select or search text.
    fn to_unicode(&self) -> Vec<u8> {
        let mut map = UnicodeCmap::new(CMAP, IDENTITY);
        for (code, character) in (1..=u16::MAX).zip(&self.characters) {
            map.pair(code, *character);
        }
        map.finish().into_vec()
    }
}

/// Returns the six letters that distinguish this subset from others of the font.
fn tag(characters: &[char]) -> String {
    let mut sum = Crc::new();
    sum.update(String::from_iter(characters).as_bytes());
    let digit = |place| b'A' + (sum.sum() / 26_u32.pow(place) % 26) as u8;
    (0..6).map(|place| char::from(digit(place))).collect()
}
