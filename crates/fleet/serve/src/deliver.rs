//! The other end: a machine delivers its recordings to a collector.
//!
//! What is due is what is finished and was not answered yet ([`Store::due`]). One
//! recording at a time is in memory. What cannot be delivered now is tried again, later
//! and later; what the collector refuses finally is kept here, with the reason.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use punctual_model::RecordingId;
use punctual_store::{Destination, Outbox, Store, StoreError};
use serde::{Deserialize, Serialize};
use ureq::Agent;

use crate::deliver_beside as beside;
use crate::deliver_dictionary::{self as dictionary, Dictionary};
use crate::deliver_to::{is_plain, tls};
use crate::membership::{Membership, SERIES};
use crate::sender::MACHINE;
use crate::token::sha256;

pub use crate::error::DeliverError;

/// The header with the hash of what is delivered.
const HASH: &str = crate::api::HASH;
/// Recordings that are asked for from the store at once. So many of those that were
/// delivered last are asked for from the collector before the next page.
const PAGE: usize = 64;
/// A collector that lost something so often in one call is not delivered to.
const LOSSES: u32 = 5;
/// IDs that are asked for from the collector at once.
const IDS: usize = 5_000;
/// The level of zstd: delivery competes with what is measured.
const LEVEL: i32 = 3;
/// A request may take so long.
const REQUEST: Duration = Duration::from_secs(60);
/// The pause after a first failure, and the longest.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(300);
/// The longest that a collector may ask to wait.
const LONGEST_ASKED: Duration = Duration::from_secs(3_600);
/// Where to deliver, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// `https://collector.example:8090`, without a path.
    pub url: String,
    /// The token of this machine; `None` where the collector asks for none.
    pub token: Option<String>,
    /// The name of this machine, for a collector that asks for no token.
    pub machine: String,
    /// The identity of this machine in ASCII, `ID BOOT NAME`: a collector lets one machine
    /// use a token. `None`: the collector does not check it.
    pub identity: Option<String>,
    /// Certificates to trust instead of the system's, as a PEM file.
    pub roots: Option<std::path::PathBuf>,
}

/// What an attempt came to.
enum Attempt {
    Delivered,
    Refused(String),
    /// The token is not accepted.
    NoToken(u16, String),
    /// Again, after at least this.
    Later(String, Option<Duration>),
}

#[derive(Serialize, Deserialize)]
struct Ids {
    ids: Vec<RecordingId>,
}

#[derive(Deserialize)]
struct Failure {
    error: String,
}

/// A connection to a collector.
#[derive(Debug)]
pub struct Deliverer {
    agent: Agent,
    target: Target,
    /// Whether to stop; asked in each pause.
    stopped: fn() -> bool,
}

impl Deliverer {
    /// Prepares delivery to `target`; `stopped` ends pauses early.
    ///
    /// # Errors
    /// A URL or certificates that cannot be used.
    pub fn new(target: Target, stopped: fn() -> bool) -> Result<Self, DeliverError> {
        let url = target.url.trim_end_matches('/').to_owned();
        let tls = match is_plain(&url) {
            Some(true) => None,
            Some(false) => Some(tls(target.roots.as_deref())?),
            None => return Err(DeliverError::Url(target.url)),
        };
        let mut config = Agent::config_builder()
            .timeout_global(Some(REQUEST))
            .http_status_as_error(false)
            // A redirect could lead the token elsewhere.
            .max_redirects(0)
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")));
        if let Some(tls) = tls {
            config = config.tls_config(tls);
        }
        Ok(Self {
            agent: Agent::new_with_config(config.build()),
            target: Target { url, ..target },
            stopped,
        })
    }

    /// Delivers all that is due in `store`; failures that pass are tried again for at
    /// most `patience` in a row. `said` hears of them.
    ///
    /// # Errors
    /// See [`DeliverError`]; what was delivered until then is marked as such.
    pub fn deliver(
        &self,
        store: &Store,
        patience: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<Outbox, DeliverError> {
        let to = store.destination(&self.target.url)?;
        let mut losses = 0;
        loop {
            // Before each page: a collector may be restored at any time.
            let mut lost = 0;
            self.retry(patience, said, &mut || {
                self.ask_for_lost(store, &to, false, &mut lost)
            })?;
            losses += u32::from(lost > 0);
            if losses > LOSSES {
                let text = "the collector loses what it has answered";
                return Err(DeliverError::GaveUp(text.to_owned()));
            }
            let due = store.due(&to, PAGE)?;
            if due.is_empty() || (self.stopped)() {
                self.deliver_beside(store, &to, patience, said)?;
                return Ok(store.outbox(&to)?);
            }
            for id in due {
                let refused = self.retry(patience, said, &mut || self.send(store, &to, id))?;
                if let Some(reason) = &refused {
                    said(&format!("recording {id} is not delivered: {reason}"));
                }
                store.mark_delivered(&to, id, refused.as_deref())?;
            }
        }
    }

    /// Delivers windows, slots, notes and decisions.
    fn deliver_beside(
        &self,
        store: &Store,
        to: &Destination,
        patience: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<(), DeliverError> {
        let machine = &self.target.machine;
        while let Some(part) = beside::windows(store, to, machine)? {
            if (self.stopped)() {
                return Ok(());
            }
            if part.damaged > 0 {
                let count = part.damaged;
                said(&format!(
                    "damaged windows of wake-ups, not delivered: {count}"
                ));
            }
            if !part.is_empty() {
                self.send_part(&part, patience, said)?;
            }
            part.done(store, to)?;
        }
        for part in beside::rest(store, to, machine)? {
            self.send_part(&part, patience, said)?;
            part.done(store, to)?;
        }
        Ok(())
    }

    fn send_part(
        &self,
        part: &beside::Part,
        patience: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<(), DeliverError> {
        let json = serde_json::json!(part.body).to_string();
        let packed = zstd::bulk::compress(json.as_bytes(), LEVEL);
        let packed = packed.map_err(|error| DeliverError::GaveUp(error.to_string()))?;
        let refused = self.retry(patience, said, &mut || {
            let url = format!("{}/v1/beside", self.target.url);
            let request = self
                .with_token(self.agent.post(url))
                .header("content-type", "application/json")
                .header("content-encoding", "zstd");
            Ok(match request.send(&packed[..]) {
                Ok(mut answer) => judge(&mut answer),
                Err(error) => Attempt::Later(self.unreachable(&error), None),
            })
        })?;
        match refused {
            // It stays due: an older collector does not know it yet.
            Some(reason) => {
                let text = format!("windows, slots and notes are refused: {reason}");
                Err(DeliverError::GaveUp(text))
            }
            None => Ok(()),
        }
    }

    /// Makes due again what the collector refused, and of all that was delivered, however
    /// long ago, what it lacks. [`deliver`](Self::deliver) asks for the last part alone: a
    /// collector may have removed what is old.
    ///
    /// # Errors
    /// No answer, and what writing can fail with.
    pub fn deliver_again(
        &self,
        store: &Store,
        patience: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<(), DeliverError> {
        let to = store.destination(&self.target.url)?;
        let refused: Vec<RecordingId> = store.refused(&to)?.into_iter().map(|one| one.0).collect();
        store.redeliver(&to, &refused)?;
        self.retry(patience, said, &mut || {
            self.ask_for_lost(store, &to, true, &mut 0)
        })?;
        Ok(())
    }

    /// Makes due what was delivered and is not there any more, as after a restore: what
    /// was delivered last, and before that as long as something lacks, or `all`. Counts it.
    fn ask_for_lost(
        &self,
        store: &Store,
        to: &Destination,
        all: bool,
        lost: &mut usize,
    ) -> Result<Attempt, DeliverError> {
        let (mut from, mut most) = (0, PAGE);
        loop {
            let ids = store.delivered(to, from, most)?;
            // Without any it is asked all the same: whether it is there, and takes the token.
            if ids.is_empty() && from > 0 {
                return Ok(Attempt::Delivered);
            }
            let lacking = match self.ask(&ids) {
                Ok(lacking) => lacking,
                Err(attempt) => return Ok(attempt),
            };
            store.redeliver(to, &lacking)?;
            if !lacking.is_empty() {
                beside::forget(store, to)?;
            }
            *lost += lacking.len();
            if ids.len() < most || (lacking.is_empty() && !all) {
                return Ok(Attempt::Delivered);
            }
            from += ids.len() - lacking.len();
            most = IDS;
        }
    }

    /// Those of these recordings that the collector lacks; an attempt that failed.
    fn ask(&self, ids: &[RecordingId]) -> Result<Vec<RecordingId>, Attempt> {
        let body = serde_json::json!(Ids { ids: ids.to_vec() }).to_string();
        let request = self.agent.post(format!("{}/v1/lacking", self.target.url));
        let request = self
            .with_token(request)
            .header("content-type", "application/json");
        let mut answer = request
            .send(body)
            .map_err(|error| Attempt::Later(self.unreachable(&error), None))?;
        if answer.status() != 200 {
            return Err(judge(&mut answer));
        }
        let lacking = answer.body_mut().read_to_string();
        let lacking = lacking
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        let Some(Ids { ids: lacking }) = lacking else {
            let message = "the collector's answer is not a list of IDs";
            return Err(Attempt::Later(message.to_owned(), None));
        };
        // Nothing but what was asked for becomes due again.
        let asked: BTreeSet<&RecordingId> = ids.iter().collect();
        Ok((lacking.into_iter())
            .filter(|id| asked.contains(id))
            .collect())
    }

    fn send(
        &self,
        store: &Store,
        to: &Destination,
        id: RecordingId,
    ) -> Result<Attempt, DeliverError> {
        let recording = match store.load(id) {
            Ok(recording) => recording,
            // It must not stand in the way of the others.
            Err(StoreError::Damaged { detail, .. }) => {
                return Ok(Attempt::Refused(format!(
                    "its copy here is damaged: {detail}"
                )));
            }
            Err(StoreError::Recording { source, .. }) => {
                return Ok(Attempt::Refused(format!(
                    "its copy here is damaged: {source}"
                )));
            }
            // Deleted meanwhile.
            Err(StoreError::NoSuch { .. }) => return Ok(Attempt::Delivered),
            Err(error) => return Err(error.into()),
        };
        let series = match store.epoch_of(id)? {
            None => None,
            Some(epoch) => match Membership::of(&epoch).header() {
                Some(header) => Some(header),
                None => {
                    let name = epoch.name;
                    return Ok(Attempt::Refused(format!(
                        "the definition of {name} is too long"
                    )));
                }
            },
        };
        // A recording becomes JSON: it has texts as keys and no other numbers.
        let body = serde_json::to_vec(&recording).unwrap_or_default();
        let send = |hash: &str, text: &str| self.put_dictionary(hash, text);
        let common = dictionary::offered(store, to, Dictionary::of(&recording), send)?;
        let put = |common: Option<&Dictionary>| self.put(id, &body, series.as_deref(), common);
        if common.is_some() {
            match put(common.as_ref()) {
                (_, 424) => dictionary::forget(store, to)?,
                (attempt, _) => return Ok(attempt),
            }
        }
        Ok(put(None).0)
    }

    /// Sends a body, compressed with a dictionary or without; the attempt, and the status
    /// of the answer, 0 for none.
    fn put(
        &self,
        id: RecordingId,
        body: &[u8],
        series: Option<&str>,
        common: Option<&Dictionary>,
    ) -> (Attempt, u16) {
        let packed = match common {
            Some(dictionary) => dictionary.compress(body, LEVEL),
            None => zstd::bulk::compress(body, LEVEL),
        };
        let packed = match packed {
            Ok(packed) => packed,
            Err(error) => {
                let text = format!("it cannot be compressed: {error}");
                return (Attempt::Refused(text), 0);
            }
        };
        let url = format!("{}/v1/recordings/{id}", self.target.url);
        let mut request = self
            .with_token(self.agent.put(url))
            .header("content-type", "application/json")
            .header("content-encoding", "zstd")
            .header(HASH, sha256(body));
        if let Some(series) = series {
            request = request.header(SERIES, series);
        }
        if let Some(dictionary) = common {
            request = request.header(crate::api::DICTIONARY, &dictionary.hash);
        }
        match request.send(&packed[..]) {
            Ok(mut answer) => (judge(&mut answer), answer.status().as_u16()),
            Err(error) => (Attempt::Later(self.unreachable(&error), None), 0),
        }
    }

    /// Sends a dictionary; whether the collector has it now.
    fn put_dictionary(&self, hash: &str, text: &str) -> bool {
        let Ok(packed) = zstd::bulk::compress(text.as_bytes(), LEVEL) else {
            return false;
        };
        let url = format!("{}/v1/dictionaries/{hash}", self.target.url);
        let request = self
            .with_token(self.agent.put(url))
            .header("content-type", "application/octet-stream")
            .header("content-encoding", "zstd");
        let answer = request.send(&packed[..]);
        answer.is_ok_and(|mut answer| matches!(judge(&mut answer), Attempt::Delivered))
    }

    fn with_token<B>(&self, mut request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        if let Some(identity) = &self.target.identity {
            request = request.header(MACHINE, identity);
        }
        match &self.target.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn unreachable(&self, error: &ureq::Error) -> String {
        format!("cannot reach {}: {error}", self.target.url)
    }

    /// Repeats `attempt` until it comes to an end; the reason where that is a refusal.
    fn retry(
        &self,
        patience: Duration,
        said: &mut dyn FnMut(&str),
        attempt: &mut dyn FnMut() -> Result<Attempt, DeliverError>,
    ) -> Result<Option<String>, DeliverError> {
        let begun = Instant::now();
        let mut pause = FIRST;
        loop {
            let (why, asked) = match attempt()? {
                Attempt::Delivered => return Ok(None),
                Attempt::Refused(reason) => return Ok(Some(reason)),
                Attempt::NoToken(status, message) => {
                    return Err(DeliverError::Token { status, message });
                }
                Attempt::Later(why, asked) => (why, asked),
            };
            // Not all machines of a fleet at once.
            let jittered = pause.mul_f64(0.5 + fastrand::f64());
            let wait = asked.map_or(jittered, |asked| {
                asked.min(LONGEST_ASKED) + jittered.min(FIRST)
            });
            if (self.stopped)() || begun.elapsed() + wait > patience {
                return Err(DeliverError::GaveUp(why));
            }
            if pause == FIRST {
                said(&format!("{why}: trying again"));
            }
            self.wait(wait);
            pause = (pause * 2).min(LONGEST);
        }
    }

    fn wait(&self, length: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        let end = Instant::now() + length;
        while !(self.stopped)() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

/// What an answer means.
fn judge(answer: &mut ureq::http::Response<ureq::Body>) -> Attempt {
    let status = answer.status().as_u16();
    let after = answer.headers().get("retry-after");
    let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
    let after = after.map(Duration::from_secs);
    let text = answer
        .body_mut()
        .with_config()
        .limit(64 << 10)
        .read_to_string();
    let text = text.unwrap_or_default();
    let failure = serde_json::from_str(&text).map(|Failure { error }| error);
    let is_own = failure.is_ok();
    let message = failure.unwrap_or_else(|_| format!("status {status}"));
    let is_receipt = || serde_json::from_str::<serde_json::Map<_, _>>(&text).is_ok();
    match status {
        200..=299 if is_receipt() => Attempt::Delivered,
        401 | 403 => Attempt::NoToken(status, message),
        // Damaged on its way, too slow, or no room: the same may pass next time.
        400 | 408 | 425 | 429 | 500..=599 => Attempt::Later(message, after),
        _ if is_own || status == 413 => Attempt::Refused(message),
        // A proxy that leads elsewhere is mended one day.
        _ => Attempt::Later(format!("{message}, not from a collector"), after),
    }
}
