//! The objects of a PDF: its text, its font, its metadata.

use std::collections::{BTreeMap, BTreeSet};

use lopdf::content::Content;
use lopdf::{Dictionary, Document, Object};
use punctual_model::testing;
use punctual_report::plot::{self, Heading, PlotOptions};

use crate::{common, odd};

/// Characters of several scripts. The font lacks the second and the third word.
const HEADING: &str = "Füße 漢字 \u{1f980} “AV” µ μ fi → 7 ½";

fn plotted(heading: &str) -> Vec<u8> {
    let options = PlotOptions {
        heading: Heading::Text(heading.to_owned()),
        ..PlotOptions::default()
    };
    let plot = plot::latency(&[&testing::recording(2, 60)], &options).unwrap();
    plot.pdf().unwrap()
}

/// The only page of a file, and what belongs to it.
struct Page {
    document: Document,
    /// The codes of each text that is shown.
    texts: Vec<Vec<u16>>,
    /// The character of each code.
    characters: BTreeMap<u16, char>,
}

impl Page {
    fn parse(bytes: &[u8]) -> Self {
        let document = Document::load_mem(bytes).unwrap();
        let page = document.get_pages()[&1];
        let content = Content::decode(&document.get_page_content(page)).unwrap();
        for operation in &content.operations {
            let is_finite = |operand: &Object| operand.as_float().is_ok_and(f32::is_finite);
            let are_numbers = operation.operands.iter().all(is_finite);
            assert!(
                are_numbers || matches!(&*operation.operator, "Tj" | "Tf" | "d"),
                "{operation:?}"
            );
        }
        let shown = content.operations.iter().filter(|one| one.operator == "Tj");
        let texts = shown.map(|one| words(one.operands[0].as_str().unwrap()));
        let texts = texts.collect();
        let mut parsed = Self {
            document,
            texts,
            characters: BTreeMap::new(),
        };
        let map = parsed.stream(parsed.font(), b"ToUnicode");
        for line in String::from_utf8(map).unwrap().lines() {
            let pair = line
                .strip_prefix('<')
                .and_then(|line| line.split_once("> <"));
            let Some((code, character)) = pair.filter(|_| !line.contains("FFFF")) else {
                continue;
            };
            let units = character.trim_end_matches('>').as_bytes().chunks(4);
            let units: Vec<u16> = units.map(hex).collect();
            let [character] = String::from_utf16(&units)
                .unwrap()
                .chars()
                .collect::<Vec<_>>()[..]
            else {
                panic!("{line}");
            };
            let before = parsed.characters.insert(hex(code.as_bytes()), character);
            assert_eq!(before, None, "{line}");
        }
        parsed
    }

    fn font(&self) -> &Dictionary {
        let page = self.document.get_pages()[&1];
        self.document.get_page_fonts(page).unwrap()[&b"F0"[..]]
    }

    /// The part of the font that has the glyphs.
    fn descendant(&self) -> &Dictionary {
        let fonts = self.font().get(b"DescendantFonts").unwrap();
        let font = fonts.as_array().unwrap()[0].as_reference().unwrap();
        self.document.get_dictionary(font).unwrap()
    }

    fn stream(&self, owner: &Dictionary, name: &[u8]) -> Vec<u8> {
        let id = owner.get(name).unwrap().as_reference().unwrap();
        let stream = self.document.get_object(id).unwrap().as_stream().unwrap();
        stream.decompressed_content().unwrap()
    }

    /// The glyph of each code, in the font of the file.
    fn glyphs(&self) -> Vec<u16> {
        words(&self.stream(self.descendant(), b"CIDToGIDMap"))
    }

    /// Each text that is shown.
    fn shown(&self) -> Vec<String> {
        let texts = self.texts.iter();
        let shown = |text: &Vec<u16>| text.iter().map(|code| self.characters[code]).collect();
        texts.map(shown).collect()
    }
}

fn hex(digits: &[u8]) -> u16 {
    u16::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap()
}

fn words(bytes: &[u8]) -> Vec<u16> {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u16::from_be_bytes(pair.try_into().unwrap()))
        .collect()
}

#[test]
fn each_code_has_character_glyph_and_width() {
    for (name, recording) in odd::odd_ones() {
        for plot in common::plots(&recording) {
            let page = Page::parse(&plot.pdf().unwrap());
            let used: BTreeSet<u16> = page.texts.iter().flatten().copied().collect();
            let known: BTreeSet<u16> = page.characters.keys().copied().collect();
            assert_eq!(used, known, "{name}");
            assert!(!used.contains(&0), "{name}");
            let widths = page.descendant().get(b"W").unwrap().as_array().unwrap();
            let widths = widths[1].as_array().unwrap();
            assert_eq!(widths.len(), used.len() + 1, "{name}");
            assert_eq!(page.glyphs().len(), used.len() + 1, "{name}");
        }
    }
}

#[test]
fn text_is_read_as_it_was_written() {
    let bytes = plotted(HEADING);
    let page = Page::parse(&bytes);
    assert_eq!(page.shown()[0], HEADING);
    let text = page.document.extract_text(&[1]).unwrap();
    assert!(text.contains(HEADING), "{text}");
    // Two spellings of one letter, and the only box for the characters without a glyph.
    let glyph = |character: char| {
        let mut known = page.characters.iter();
        let (code, _) = known.find(|(_, one)| **one == character).unwrap();
        page.glyphs()[usize::from(*code)]
    };
    for lacking in ['漢', '字', '\u{1f980}'] {
        assert_eq!(glyph(lacking), 0, "{lacking}");
    }
    for present in ['F', 'ü', 'µ', 'μ', '→'] {
        assert_ne!(glyph(present), 0, "{present}");
    }
}

#[test]
fn font_contains_only_used_glyphs() {
    let page = Page::parse(&plotted("x"));
    let id = page.descendant().get(b"FontDescriptor").unwrap();
    let descriptor = page.document.get_dictionary(id.as_reference().unwrap());
    let font = page.stream(descriptor.unwrap(), b"FontFile2");
    let face = ttf_parser::Face::parse(&font, 0).unwrap();
    let used = page.glyphs().into_iter().max().unwrap();
    // Parts of composed glyphs, such as the dots of ü, follow them.
    assert!((used + 1..used + 10).contains(&face.number_of_glyphs()));
    assert!(font.len() < 50_000, "{}", font.len());
    let name = page.font().get(b"BaseFont").unwrap().as_name().unwrap();
    let other = Page::parse(&plotted("y"));
    let (tag, rest) = name.split_at(7);
    assert!(tag[..6].iter().all(u8::is_ascii_uppercase) && tag[6] == b'+');
    assert_eq!(rest, b"DejaVuSans");
    assert_ne!(
        other.font().get(b"BaseFont").unwrap().as_name().unwrap(),
        name
    );
}

#[test]
fn equal_plots_are_equal_files() {
    assert_eq!(plotted(HEADING), plotted(HEADING));
}

#[test]
fn file_names_its_title_and_program() {
    let recording = testing::recording(1, 3);
    let bytes = plot::latency(&[&recording], &PlotOptions::default())
        .unwrap()
        .pdf();
    let document = Document::load_mem(&bytes.unwrap()).unwrap();
    let info = document
        .trailer
        .get(b"Info")
        .unwrap()
        .as_reference()
        .unwrap();
    let info = document.get_dictionary(info).unwrap();
    let entry = |name: &[u8]| lopdf::decode_text_string(info.get(name).unwrap()).unwrap();
    assert!(entry(b"Title").contains("interval"), "{}", entry(b"Title"));
    assert_eq!(
        entry(b"Creator"),
        format!("punctual {}", env!("CARGO_PKG_VERSION"))
    );
    // The date of a file would make equal plots differ.
    assert!(!info.has(b"CreationDate"));
    let language = document.catalog().unwrap().get(b"Lang").unwrap();
    assert_eq!(language.as_str().unwrap(), b"en");
}
