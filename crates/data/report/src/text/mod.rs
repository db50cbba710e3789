//! Documents as text for a terminal of any width.

mod layout;

use crate::document::{Block, Document, Field, Section, Table, Tone};
use crate::sanitize::{sanitize, width};
use crate::wrap::wrap;

/// Width of the field names on the left.
const NAMES: usize = 14;

/// How text is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextStyle {
    /// Whether to use colours (ANSI SGR sequences).
    pub colour: bool,
    /// Maximum line width in columns, where the content allows it. Values below 40 count as 40.
    pub width: usize,
}

impl Default for TextStyle {
    /// Plain text, 80 columns wide.
    fn default() -> Self {
        Self {
            colour: false,
            width: 80,
        }
    }
}

impl TextStyle {
    fn columns(self) -> usize {
        self.width.max(40)
    }

    fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Heading => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "1;31",
        };
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Returns a document as text. Lines fit the width of the style, except commands and longer words,
/// which must stay whole to be copied. In a table that is too wide, cells are shortened first. Then
/// columns are dropped by priority, or continue in a second block below.
pub fn render(document: &Document, style: &TextStyle) -> String {
    let mut page = Page {
        style: *style,
        out: String::new(),
    };
    if !document.title.is_empty() {
        let title = match &document.program {
            Some(program) => format!("{program}: {}", document.title),
            None => document.title.clone(),
        };
        page.wrapped(Tone::Heading, &title);
    }
    let shown = document.sections.iter().filter(|section| {
        let figure = |block: &Block| matches!(block, Block::Figure(_));
        section.medium.is_on_terminal() && !section.blocks.iter().all(figure)
    });
    let mut titled = !document.title.is_empty();
    for section in shown {
        let goes_on =
            std::mem::take(&mut titled) && matches!(section.blocks.first(), Some(Block::Fields(_)));
        if !page.out.is_empty() && !goes_on {
            page.line("");
        }
        page.section(section);
    }
    page.out
}

/// A table that is too long for memory, so it is rendered page by page. It neither continues in a
/// second block nor counts the hidden rows.
#[derive(Debug)]
pub struct LongTable {
    style: TextStyle,
    widths: layout::Widths,
    begun: bool,
}

impl LongTable {
    /// Returns a table without rows.
    pub fn new(style: TextStyle) -> Self {
        Self {
            style,
            widths: layout::Widths::default(),
            begun: false,
        }
    }

    /// Measures the widths of a page. All pages must be measured before the first is rendered.
    pub fn measure(&mut self, page: &Table) {
        self.widths.add(page);
    }

    /// Returns the lines of the next page, formatted as [`render`] formats a whole table.
    pub fn render(&mut self, page: &Table) -> String {
        let columns = self.style.columns();
        let (heading, body) = self.widths.lines(page, columns, self.style);
        let mut text = Page {
            style: self.style,
            out: String::new(),
        };
        let is_first = !std::mem::replace(&mut self.begun, true);
        let heading = heading.filter(|_| is_first);
        let lines = heading.iter().chain(&body);
        lines.for_each(|line| text.line(line));
        text.out
    }

    /// Returns the lines after the last page, which name the columns that did not fit.
    pub fn end(&self, page: &Table) -> String {
        let lines = self.widths.left_out(page, self.style.columns(), self.style);
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// The text so far, and its style.
struct Page {
    style: TextStyle,
    out: String,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn wrapped(&mut self, tone: Tone, text: &str) {
        for line in wrap(&sanitize(text), self.style.columns()) {
            let line = self.style.paint(tone, &line);
            self.line(&line);
        }
    }

    fn section(&mut self, section: &Section) {
        self.heading(section);
        for block in &section.blocks {
            match block {
                Block::Text(tone, text) => self.wrapped(*tone, text),
                Block::Answer(answer) => self.wrapped(answer.tone, &answer.text),
                Block::Fields(fields) => fields.iter().for_each(|field| self.field(field)),
                Block::Warnings(list) => list.iter().for_each(|text| self.warning(text)),
                Block::Table(table) => {
                    let lines = layout::lines(table, self.style.columns(), self.style);
                    lines.iter().for_each(|line| self.line(line));
                }
                Block::Figure(_) => {}
            }
        }
    }

    /// Writes `FAIL high  title  identifier`. If the identifier does not fit, it gets its own line.
    fn heading(&mut self, section: &Section) {
        let Some((medium, heading)) = &section.heading else {
            return;
        };
        if !medium.is_on_terminal() {
            return;
        }
        let columns = self.style.columns();
        let mark = (section.state.as_ref()).map_or_else(String::new, |(tone, mark)| {
            format!("{}  ", self.style.paint(*tone, &sanitize(mark)))
        });
        let marked = section
            .state
            .as_ref()
            .map_or(0, |(_, mark)| width(mark) + 2);
        let mut lines = wrap(&sanitize(heading), columns.saturating_sub(marked)).into_iter();
        let mut line = lines.next().unwrap_or_default();
        let mut used = marked + width(&line);
        let mut text = format!("{mark}{}", self.style.paint(Tone::Heading, &line));
        for next in lines {
            self.line(&text);
            line = next;
            used = marked + width(&line);
            text = format!("{:marked$}{}", "", self.style.paint(Tone::Heading, &line));
        }
        if let Some(aside) = section.aside.as_deref().map(sanitize) {
            let painted = self.style.paint(Tone::Faint, &aside);
            if used + 2 + width(&aside) <= columns {
                text.push_str(&format!("  {painted}"));
            } else {
                self.line(&text);
                self.wrapped(Tone::Faint, &aside);
                return;
            }
        }
        self.line(&text);
    }

    /// Writes `name    text`, with further lines indented.
    fn field(&mut self, field: &Field) {
        let text = sanitize(&field.text);
        let lines = if field.is_command {
            vec![text.into_owned()]
        } else {
            wrap(&text, self.style.columns() - NAMES)
        };
        for (index, part) in lines.iter().enumerate() {
            let name = if index == 0 {
                sanitize(&field.name)
            } else {
                "".into()
            };
            let gap = NAMES.saturating_sub(width(&name)).max(1);
            let name = self.style.paint(Tone::Faint, &name);
            let part = self.style.paint(field.tone, part);
            self.line(&format!("{name}{:gap$}{part}", ""));
        }
    }

    fn warning(&mut self, text: &str) {
        let lines = wrap(&sanitize(text), self.style.columns() - 2);
        for (index, part) in lines.iter().enumerate() {
            let mark = if index == 0 { "! " } else { "  " };
            let line = self.style.paint(Tone::Warning, &format!("{mark}{part}"));
            self.line(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{ListRow, list, list_page};
    use jiff::Timestamp;
    use punctual_model::{Completion, Nanos, Outcome, RecordingId, RecordingLine, testing};
    use uuid::Uuid;

    fn row(number: u64) -> ListRow {
        let line = RecordingLine {
            id: RecordingId(Uuid::from_u128(number.into())),
            started: (!number.is_multiple_of(7)).then_some(Timestamp::UNIX_EPOCH),
            headline: "timer, ".repeat(1 + (number % 3) as usize),
            duration_ns: Some(Nanos(10_u64.pow((number % 12) as u32))),
            recorded: 3_u64.pow((number % 30) as u32),
            missed: Some(number),
            max_ns: (number > 1).then_some(Nanos(number * 999)),
            completion: Completion::Finished,
            outcome: Outcome::NotDecidable,
            host: Some(format!("host-{}", number / 10)),
            label: (number == 17).then(|| "a label of some length".to_owned()),
            ..RecordingLine::from(&testing::recording(1, 1))
        };
        line.into()
    }

    #[test]
    fn pages_match_whole_table_layout() {
        let rows: Vec<ListRow> = (0..40).map(row).collect();
        for width in 40..160 {
            let style = TextStyle {
                width,
                ..TextStyle::default()
            };
            let whole = render(&list(&rows), &style);
            let mut table = LongTable::new(style);
            let pages = || rows.chunks(7).map(|page| list_page(page, true));
            pages().for_each(|page| table.measure(&page));
            let text: String = pages().map(|page| table.render(&page)).collect();
            let text = pages().next().map(|page| text + &table.end(&page)).unwrap();
            assert_eq!(text, whole, "{width} columns");
        }
    }

    #[test]
    fn without_colour_there_is_no_escape_sequence() {
        let plain = TextStyle::default();
        assert_eq!(plain.paint(Tone::Bad, "x"), "x");
        let coloured = TextStyle {
            colour: true,
            ..plain
        };
        assert_eq!(coloured.paint(Tone::Bad, "x"), "\x1b[1;31mx\x1b[0m");
    }
}
