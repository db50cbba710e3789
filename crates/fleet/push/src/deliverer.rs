//! Delivers the recordings of a machine to a collector.
//!
//! A finished recording is due until the collector has acknowledged or rejected it
//! ([`Store::due`]). Only one recording at a time is held in memory. Failed deliveries are retried
//! with increasing pauses. If the collector rejects a recording permanently, the store keeps the
//! reason.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use punctual_model::{FromJson, RecordingId, ToJson, from_json};
use punctual_store::{Destination, Outbox, Store, StoreError};
use rustls::CertificateError;
use serde::Deserialize;
use ureq::Agent;

use crate::DeliverError;
use crate::dictionary::{self, Dictionary};
use crate::protocol::{DICTIONARY, HASH, Ids, MACHINE, Membership, SERIES, sha256};
use crate::sidecar as beside;
use crate::target::{is_plain, tls};

/// Number of recordings fetched from the store at a time. Before each such page, the collector is
/// asked about the same number of the latest deliveries.
const PAGE: usize = 64;
/// Delivery stops if the collector has lost recordings this many times during one call.
const LOSSES: u32 = 5;
/// Number of IDs per query to the collector.
const IDS: usize = 5_000;
/// The zstd compression level. It is low because delivery competes with the measurement for CPU
/// time.
const LEVEL: i32 = 3;
/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(60);
/// The pause after the first failure, and the longest pause.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(300);
/// The longest pause that a collector can request.
const LONGEST_ASKED: Duration = Duration::from_secs(3_600);
/// The collector to deliver to, and how.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL without a path: `https://collector.example:8090`.
    pub url: String,
    /// The token of this machine; `None` if the collector does not require one.
    pub token: Option<String>,
    /// The name of this machine, for a collector without tokens.
    pub machine: String,
    /// The identity of this machine in ASCII, `ID BOOT NAME`. A collector accepts a token from a
    /// single machine only. `None` to skip this check.
    pub identity: Option<String>,
    /// A PEM file with certificates to trust instead of the system's.
    pub roots: Option<std::path::PathBuf>,
}

/// The result of an attempt.
enum Attempt {
    Delivered,
    Refused(String),
    /// The token was not accepted.
    NoToken(u16, String),
    /// The connection fails until the configuration is changed.
    Unusable(String),
    /// Retry, after at least this time.
    Later(String, Option<Duration>),
}

#[derive(Deserialize)]
struct Failure {
    error: String,
}

from_json!(Failure);

/// A connection to a collector.
#[derive(Debug)]
pub struct Deliverer {
    agent: Agent,
    target: Target,
    /// Returns whether to stop. Called in each pause.
    stopped: fn() -> bool,
}

impl Deliverer {
    /// Prepares delivery to `target`. Pauses end early when `stopped` returns true.
    ///
    /// # Errors
    /// Returns an error if the URL or the certificates cannot be used.
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
            // Do not follow redirects, because a redirect could send the token to another server.
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

    /// Checks that the collector can be reached, and that it accepts the token and this machine.
    ///
    /// # Errors
    /// Returns an error if one of these is not the case.
    pub fn check(&self) -> Result<(), DeliverError> {
        match self.ask(&[]) {
            Ok(_) | Err(Attempt::Delivered) => Ok(()),
            Err(Attempt::NoToken(status, message)) => Err(DeliverError::Token { status, message }),
            Err(Attempt::Refused(why) | Attempt::Unusable(why) | Attempt::Later(why, _)) => {
                Err(DeliverError::Unusable(why))
            }
        }
    }

    /// Delivers everything that is due in `store`. Temporary failures are reported to `said`, and
    /// retried for at most `patience` without a success in between.
    ///
    /// # Errors
    /// See [`DeliverError`]. Recordings delivered before the error are marked as delivered.
    pub fn deliver(
        &self,
        store: &Store,
        patience: Duration,
        said: &mut dyn FnMut(&str),
    ) -> Result<Outbox, DeliverError> {
        let to = store.destination(&self.target.url)?;
        let mut losses = 0;
        loop {
            // Ask before each page, because a collector can be restored at any time.
            let mut lost = 0;
            self.retry(patience, said, &mut || {
                self.ask_for_lost(store, &to, false, &mut lost)
            })?;
            losses += u32::from(lost > 0);
            if losses > LOSSES {
                let text = "the collector loses stored recordings";
                return Err(DeliverError::GaveUp(text.to_owned()));
            }
            let due = store.due(&to, PAGE)?;
            if due.is_empty() || (self.stopped)() {
                self.push_sidecar(store, &to, patience, said)?;
                return Ok(store.outbox(&to)?);
            }
            for id in due {
                let refused = self.retry(patience, said, &mut || self.send(store, &to, id))?;
                if let Some(reason) = &refused {
                    said(&format!("recording {id} was not delivered: {reason}"));
                }
                store.mark_delivered(&to, id, refused.as_deref())?;
            }
        }
    }

    /// Delivers windows, slots, notes and decisions.
    fn push_sidecar(
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
                    "number of damaged windows of wake-ups that were not delivered: {count}"
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
        let json = part.body.to_json();
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
                Err(error) => self.unreachable(&error),
            })
        })?;
        match refused {
            // The data stays due, because an older collector may not support it yet.
            Some(reason) => {
                let text = format!("the collector refused windows, slots and notes: {reason}");
                Err(DeliverError::GaveUp(text))
            }
            None => Ok(()),
        }
    }

    /// Makes rejected recordings due again, and all delivered recordings that the collector is
    /// missing, however old. [`deliver`](Self::deliver) only asks about the latest ones, because a
    /// collector may have removed old recordings.
    ///
    /// # Errors
    /// Returns an error if the collector does not answer, or if the store cannot be written.
    pub fn redeliver(
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

    /// Makes delivered recordings due again if the collector is missing them, such as after a
    /// restore. It asks about the latest ones, then about older ones as long as some are missing.
    /// With `all`, it asks about all of them. Adds their number to `lost`.
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
            // Ask even if there are no IDs, to check that the collector is reachable and accepts
            // the token.
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

    /// Returns which of these recordings the collector is missing, or the attempt if it failed.
    fn ask(&self, ids: &[RecordingId]) -> Result<Vec<RecordingId>, Attempt> {
        let body = Ids { ids: ids.to_vec() }.to_json();
        let request = self.agent.post(format!("{}/v1/lacking", self.target.url));
        let request = self
            .with_token(request)
            .header("content-type", "application/json");
        let mut answer = request
            .send(body)
            .map_err(|error| self.unreachable(&error))?;
        if answer.status() != 200 {
            return Err(judge(&mut answer));
        }
        let lacking = answer.body_mut().read_to_string();
        let lacking = lacking
            .ok()
            .and_then(|text| Ids::from_json(text.as_bytes()).ok());
        let Some(Ids { ids: lacking }) = lacking else {
            let message = "the collector's answer is not a list of IDs";
            return Err(Attempt::Later(message.to_owned(), None));
        };
        // Only recordings that were asked about can become due again.
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
            // A damaged recording must not block the others.
            Err(StoreError::Damaged { detail, .. }) => {
                return Ok(Attempt::Refused(format!(
                    "its local copy is damaged: {detail}"
                )));
            }
            Err(StoreError::Recording { source, .. }) => {
                return Ok(Attempt::Refused(format!(
                    "its local copy is damaged: {source}"
                )));
            }
            // The recording has been deleted in the meantime.
            Err(StoreError::NoSuch { .. }) => return Ok(Attempt::Delivered),
            Err(error) => return Err(error.into()),
        };
        let series = match store.epoch_of(id)? {
            None => None,
            Some(epoch) => match Membership::from_epoch(&epoch).header() {
                Some(header) => Some(header),
                None => {
                    let name = epoch.name;
                    return Ok(Attempt::Refused(format!(
                        "the definition of {name} is too long"
                    )));
                }
            },
        };
        let body = recording.to_json().into_bytes();
        let send = |hash: &str, text: &str| self.put_dictionary(hash, text);
        let common = dictionary::offered(store, to, Dictionary::from_recording(&recording), send)?;
        let put = |common: Option<&Dictionary>| self.put(id, &body, series.as_deref(), common);
        if common.is_some() {
            match put(common.as_ref()) {
                (_, 424) => dictionary::forget(store, to)?,
                (attempt, _) => return Ok(attempt),
            }
        }
        Ok(put(None).0)
    }

    /// Sends a body, compressed with or without a dictionary. Returns the attempt and the HTTP
    /// status, or 0 without a response.
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
            request = request.header(DICTIONARY, &dictionary.hash);
        }
        match request.send(&packed[..]) {
            Ok(mut answer) => (judge(&mut answer), answer.status().as_u16()),
            Err(error) => (self.unreachable(&error), 0),
        }
    }

    /// Sends a dictionary, and returns whether the collector has it now.
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

    fn unreachable(&self, error: &ureq::Error) -> Attempt {
        let certificate = certificate_fault(error);
        let advice = certificate.map_or("", certificate_advice);
        let text = format!("cannot reach {}: {error}{advice}", self.target.url);
        match certificate {
            // The clock of a board may be wrong until it is set from the network.
            Some(fault) if !depends_on_clock(fault) => Attempt::Unusable(text),
            _ => Attempt::Later(text, None),
        }
    }

    /// Repeats `attempt` until it gets a final answer. Returns the reason if it was rejected.
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
                Attempt::Unusable(why) => return Err(DeliverError::Unusable(why)),
                Attempt::Later(why, asked) => (why, asked),
            };
            // Jitter prevents the machines of a fleet from retrying at the same time.
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

/// Returns the fault of the collector's certificate, if there is one.
fn certificate_fault(error: &ureq::Error) -> Option<&CertificateError> {
    let fault = match error {
        ureq::Error::Rustls(fault) => fault,
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref()?,
        _ => return None,
    };
    match fault {
        rustls::Error::InvalidCertificate(fault) => Some(fault),
        _ => None,
    }
}

fn depends_on_clock(fault: &CertificateError) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(
        fault,
        Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
    )
}

/// Returns advice to append to an error about the collector's certificate.
fn certificate_advice(fault: &CertificateError) -> &'static str {
    match fault {
        CertificateError::UnknownIssuer => {
            "; this machine does not trust the CA of the collector: pass its certificate with --ca"
        }
        // rustls has no variant for this fault of the library that checks certificates.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "; the certificate of the collector is marked as a CA, as self-signed certificates \
             usually are: create a CA, sign a certificate with CA:FALSE, and pass the CA with --ca"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "; the certificate of the collector is for another name: use that name in the URL"
        }
        fault if depends_on_clock(fault) => {
            "; compare the dates of the certificate with the clock of this machine"
        }
        _ => "",
    }
}

/// Interprets a response.
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
    let failure = Failure::from_json(text.as_bytes()).map(|Failure { error }| error);
    let is_own = failure.is_ok();
    let message = failure.unwrap_or_else(|_| format!("status {status}"));
    let is_receipt =
        || serde_json::Value::from_json(text.as_bytes()).is_ok_and(|value| value.is_object());
    match status {
        200..=299 if is_receipt() => Attempt::Delivered,
        401 | 403 => Attempt::NoToken(status, message),
        // The collector does not know a form of this machine. Data stays due until it is updated.
        501 if is_own => Attempt::Unusable(message),
        // The delivery was damaged in transit or too slow, or there was no space, so a later
        // attempt may succeed.
        400 | 408 | 425 | 429 | 500..=599 => Attempt::Later(message, after),
        _ if is_own || status == 413 => Attempt::Refused(message),
        // A misconfigured proxy may be repaired later.
        _ => Attempt::Later(format!("{message}, not from a collector"), after),
    }
}
