//! Ensures that each token is used by only one machine. Recordings are stored under the name of the
//! token, so two machines with one token would be mixed up.
//!
//! A machine sends its identity with each request: a hash of its machine-id(5), its boot and its
//! name. A different machine-id means a different machine. Copies of one disk image have the same
//! machine-id. They are detected when an earlier boot appears again after a different one was seen.

use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use punctual_push::protocol::MACHINE;
use punctual_store::{AuditLine, Token};

use crate::problem::Problem;
use crate::state::App;

/// Maximum length of the header, in bytes.
const LONGEST: usize = 512;
/// Number of boots of a machine to remember.
const BOOTS: usize = 8;

/// The machine that sends a request, or the machine that is recorded with a token.
#[derive(Clone, Debug, PartialEq)]
struct Sender {
    id: String,
    name: String,
    /// The boots of the machine, newest first.
    boots: Vec<String>,
}

/// The decision on a request.
#[derive(Debug, PartialEq)]
enum Answer {
    /// It is the recorded machine.
    Known,
    /// The machine, or its new boot, must be recorded.
    Note(Sender),
    /// It is another machine.
    Stranger,
}

impl Sender {
    /// Parses a header.
    fn sent(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let [id, boot, name] = [words.next()?, words.next()?, words.next()?].map(str::to_owned);
        let boots = vec![boot];
        let whole = text.len() <= LONGEST && words.next().is_none();
        whole.then_some(Self { id, name, boots })
    }

    /// Parses the text stored with a token.
    fn noted(text: &str) -> Option<Self> {
        let mut words = text.split(' ').map(str::to_owned);
        let (id, name) = (words.next()?, words.next()?);
        let boots = words.collect();
        Some(Self { id, name, boots })
    }

    /// Returns the text to store with a token.
    fn text(&self) -> String {
        format!("{} {} {}", self.id, self.name, self.boots.join(" "))
    }

    /// Decides on a request of this machine. `noted` is the machine that has used the token before.
    fn answer(self, noted: Option<&Self>) -> Answer {
        let Some(noted) = noted else {
            return Answer::Note(self);
        };
        let is_known = |id: &str| id != "-";
        let [boot] = self.boots.as_slice() else {
            return Answer::Stranger;
        };
        if is_known(&self.id) && is_known(&noted.id) && self.id != noted.id {
            return Answer::Stranger;
        }
        match noted.boots.iter().position(|known| known == boot) {
            Some(0) => Answer::Known,
            Some(_) => Answer::Stranger,
            None => {
                let boots = std::iter::once(boot).chain(&noted.boots);
                let boots = boots.take(BOOTS).cloned().collect();
                let id = if is_known(&self.id) {
                    self.id
                } else {
                    noted.id.clone()
                };
                Answer::Note(Self { id, boots, ..self })
            }
        }
    }
}

/// Refuses the request of a machine that uses the token of another. A request without the header
/// (an older program, a script) is not refused.
///
/// # Errors
/// Returns an error if another machine uses this token, or if the store fails.
pub(crate) async fn check(app: &App, token: &Token, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(MACHINE) else {
        return Ok(());
    };
    let sent = value.to_str().ok().and_then(Sender::sent).ok_or_else(|| {
        Problem::bad_request(
            "the header Punctual-Machine does not have the form 'ID BOOT \
                NAME'",
        )
    })?;
    let (name, boots) = (sent.name.clone(), sent.boots.clone());
    let before = token.machine.clone();
    let noted = before.as_deref().and_then(Sender::noted);
    match sent.answer(noted.as_ref()) {
        Answer::Known => Ok(()),
        Answer::Note(machine) => {
            let (of, text) = (token.name.clone(), machine.text());
            app.stored(move |all| all.set_machine(&of, before.as_deref(), Some(&text)))
                .await?;
            // Each boot is recorded once. If two machines are checked at the same moment, which is
            // rare, their next requests reveal it.
            debug_assert!(machine.boots.starts_with(&boots));
            Ok(())
        }
        Answer::Stranger => Err(refused(app, token, &name, noted).await?),
    }
}

/// Reports on both sides that two machines are using the same token.
async fn refused(
    app: &App,
    token: &Token,
    name: &str,
    noted: Option<Sender>,
) -> Result<Problem, Problem> {
    let of = &token.name;
    let other = noted.map_or_else(String::new, |noted| noted.name);
    let who = if other == name {
        format!("another machine named '{name}' (possibly from a copy of its disk image)")
    } else {
        format!("the machine '{other}'")
    };
    if app.strangers.add(of, name) {
        let text = format!("refused: '{name}' uses the token of '{of}', which {who} also uses");
        crate::log::complain(&text);
        let line = AuditLine {
            at: Timestamp::now(),
            who: of.clone(),
            action: "refuse".to_owned(),
            what: format!("'{name}' uses the token of another machine"),
        };
        app.stored(move |all| all.log(&line)).await?;
    }
    let message = format!(
        "{who} already uses the token '{of}': create a separate token for '{name}' (on the \
         collector: punctual-server enrol NAME). If '{name}' replaces the other machine, run on \
         the collector: punctual-server moved {of}"
    );
    Ok(Problem::new(StatusCode::FORBIDDEN, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns for each request of a machine (ID, boot, name) whether it is accepted.
    fn taken(requests: &[&str]) -> Vec<bool> {
        let mut noted: Option<Sender> = None;
        let one = |text: &&str| match Sender::sent(text).unwrap().answer(noted.as_ref()) {
            Answer::Known => true,
            Answer::Note(machine) => {
                noted = Sender::noted(&machine.text());
                assert_eq!(noted.as_ref(), Some(&machine));
                true
            }
            Answer::Stranger => false,
        };
        requests.iter().map(one).collect()
    }

    #[test]
    fn a_machine_boots_and_gets_another_name() {
        assert_eq!(
            taken(&["m 1 a", "m 1 a", "m 2 a", "m 3 b", "m 3 b"]),
            [true; 5]
        );
        // A container without a machine-id.
        assert_eq!(
            taken(&["- 1 pod-x", "- 1 pod-y", "m 1 a", "- 2 pod-z"]),
            [true; 4]
        );
    }

    #[test]
    fn another_machine_is_refused() {
        assert_eq!(taken(&["m 1 a", "n 2 b", "m 1 a"]), [true, false, true]);
        // Two machines have the same machine-id, and the boot of the first machine appears again.
        assert_eq!(
            taken(&["m 1 a", "m 2 a", "m 1 a", "m 2 a"]),
            [true, true, false, true]
        );
        let three = taken(&["- 1 a", "- 2 a", "- 3 a", "- 1 a", "- 2 a", "- 3 a"]);
        assert_eq!(three, [true, true, true, false, false, true]);
    }

    #[test]
    fn only_what_is_meant_is_read() {
        for wrong in ["", "m", "m 1", "m 1 a b", &"x ".repeat(3).repeat(LONGEST)] {
            assert_eq!(Sender::sent(wrong), None, "{wrong}");
        }
    }
}
