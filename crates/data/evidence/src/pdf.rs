//! A statement as an attachment of a PDF. The attachment is an incremental update (ISO 32000-1,
//! 7.5.6): the bytes of the page stay as they are, and the statement names their digest. The update
//! follows from the page and the statement alone, so no other byte can be changed or added.

use memchr::memmem;

use crate::NotVerified;
use crate::files::{Opened, SignedFile};

/// Name of the page in the statement.
const PAGE: &str = "certificate.pdf";
/// Name of the attachment.
const ATTACHMENT: &str = "statement.json";
/// Comment at the start of the update.
const START: &str = "\n%statement of punctual\n";
/// Bytes around the statement.
const AROUND: [&str; 2] = [">>\nstream\n", "\nendstream\n"];

/// Returns the digest of the page, which its statement must name.
pub fn page(pdf: &[u8]) -> SignedFile {
    SignedFile::of(PAGE, pdf)
}

/// Attaches a statement to a page. Returns `None` if the structure of the page differs from that of
/// the pages of punctual.
pub fn attach(page: &[u8], statement: &str) -> Option<Vec<u8>> {
    let trailer = text(&page[memmem::rfind(page, b"\ntrailer\n")?..])?;
    let [table, size, info] =
        ["startxref\n", "/Size ", "/Info "].map(|name| number_after(trailer, name));
    let (table, file, info) = (table?, size?, info?);
    let attached = file + 1;
    let (_, catalog) = split(page, "1 0 obj\n<<\n")?;
    let (catalog, _) = split(catalog, "\n>>\nendobj")?;
    let catalog = text(catalog)?;
    let [before, after] = AROUND;
    let objects = [
        (
            1,
            format!(
                "{catalog}\n  /Names << /EmbeddedFiles << /Names [({ATTACHMENT}) {attached} 0 R] >> \
                 >>\n  /AF [{attached} 0 R]\n>>\n"
            ),
        ),
        (
            file,
            format!(
                "  /Type /EmbeddedFile\n  /Subtype /application#2Fvnd.in-toto+json\n  /Length \
                 {}\n{before}{statement}{after}",
                statement.len()
            ),
        ),
        (
            attached,
            format!(
                "  /Type /Filespec\n  /F ({ATTACHMENT})\n  /UF ({ATTACHMENT})\n  /EF << /F {file} 0 \
                 R >>\n  /AFRelationship /Data\n>>\n"
            ),
        ),
    ];
    let mut update = START.to_owned();
    let mut entries = String::new();
    for (id, body) in objects {
        let place = page.len() + update.len();
        entries.push_str(&format!("{id} 1\n{place:010} 00000 n\r\n"));
        update.push_str(&format!("{id} 0 obj\n<<\n{body}endobj\n"));
    }
    let place = page.len() + update.len();
    update.push_str(&format!(
        "xref\n{entries}trailer\n<<\n  /Size {}\n  /Root 1 0 R\n  /Info {info} 0 R\n  /Prev \
         {table}\n>>\nstartxref\n{place}\n%%EOF\n",
        attached + 1
    ));
    Some([page, update.as_bytes()].concat())
}

/// Takes page and statement apart.
pub(crate) fn open(file: &[u8]) -> Result<Opened, NotVerified> {
    let without = NotVerified::NoStatement("PDF");
    let Some((page, update)) = split(file, START) else {
        return Err(without);
    };
    let statement = split(update, AROUND[0])
        .and_then(|(_, rest)| split(rest, AROUND[1]))
        .and_then(|(statement, _)| text(statement));
    let Some(statement) = statement else {
        return Err(without);
    };
    if attach(page, statement).as_deref() != Some(file) {
        return Err(NotVerified::Update);
    }
    Ok(Opened {
        statement: statement.as_bytes().to_owned(),
        files: Some(vec![self::page(page)]),
        members: Vec::new(),
    })
}

/// Returns what is before and after the first occurrence of a text.
fn split<'a>(bytes: &'a [u8], at: &str) -> Option<(&'a [u8], &'a [u8])> {
    let place = memmem::find(bytes, at.as_bytes())?;
    Some((&bytes[..place], &bytes[place + at.len()..]))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn number_after(text: &str, name: &str) -> Option<u32> {
    let (_, rest) = text.split_once(name)?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end]
        .parse()
        .ok()
        .filter(|number| *number < u32::MAX - 2)
}
