//! Writes whole objects to an S3-compatible service, using PUT requests signed with Signature
//! Version 4 (AWS, "Authenticating Requests: Using the Authorization Header").

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::LakeError;

/// Timeout of a request, long enough for a file of about 100 MB.
const REQUEST: Duration = Duration::from_secs(300);
/// Number of attempts per object, and the pause before the first retry.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Default region.
const REGION: &str = "us-east-1";
/// Block size of SHA-256 in bytes (FIPS 180-4).
const BLOCK: usize = 64;

/// A bucket, and the keys to write to it.
pub(crate) struct Bucket {
    agent: Agent,
    /// URL of the service: `https://host:port`.
    endpoint: String,
    /// Start of the path in requests: `/bucket/prefix/`, already encoded.
    path: String,
    keys: Keys,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = format!("{}{}", self.endpoint, self.path);
        f.debug_tuple("Bucket").field(&place).finish()
    }
}

struct Keys {
    id: String,
    secret: String,
    /// Session token of temporary keys.
    session: Option<String>,
    region: String,
}

impl Bucket {
    pub(crate) fn new(
        bucket: &str,
        prefix: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LakeError> {
        let needed = |name: &str| {
            variable(name).ok_or_else(|| LakeError::Object {
                object: format!("s3://{bucket}"),
                reason: format!("set {name} in the environment"),
            })
        };
        let keys = Keys {
            id: needed("AWS_ACCESS_KEY_ID")?,
            secret: needed("AWS_SECRET_ACCESS_KEY")?,
            session: variable("AWS_SESSION_TOKEN"),
            region: (variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")))
                .unwrap_or_else(|| REGION.to_owned()),
        };
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint =
            endpoint.unwrap_or_else(|| format!("https://s3.{}.amazonaws.com", keys.region));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusted = punctual_files::roots::file()
            .and_then(|path| punctual_files::roots::BUDGET.read(path).ok());
        let trusted = trusted.unwrap_or_default();
        // Without root certificates, every TLS connection fails.
        let trusted: Vec<Certificate<'static>> = parse_pem(&trusted)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(one)) => Some(one),
                _ => None,
            })
            .collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(trusted)))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .timeout_global(Some(REQUEST))
            .http_status_as_error(false)
            // The signature is valid for one host only.
            .max_redirects(0)
            .tls_config(tls)
            .build();
        let prefix = prefix.trim_matches('/');
        let path = match prefix {
            "" => format!("/{bucket}/"),
            _ => format!("/{bucket}/{}/", encoded(prefix)),
        };
        Ok(Self {
            agent: Agent::new_with_config(config),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            path,
            keys,
        })
    }

    /// Writes an object, replacing an earlier one.
    pub(crate) fn put_object(&self, key: &str, bytes: &[u8]) -> Result<(), LakeError> {
        let path = format!("{}{}", self.path, encoded(key));
        let mut attempt = 0;
        loop {
            attempt += 1;
            let reason = match self.send(&path, bytes) {
                Ok(()) => return Ok(()),
                Err((reason, true)) if attempt == ATTEMPTS => reason,
                Err((_, true)) => {
                    std::thread::sleep(PAUSE * attempt);
                    continue;
                }
                Err((reason, false)) => reason,
            };
            let object = format!("{}{path}", self.endpoint);
            return Err(LakeError::Object { object, reason });
        }
    }

    /// Makes one attempt. On failure, returns the reason and whether it may be temporary.
    fn send(&self, path: &str, bytes: &[u8]) -> Result<(), (String, bool)> {
        let host = self.endpoint.split_once("://").map_or("", |(_, host)| host);
        let at = Timestamp::now().to_zoned(TimeZone::UTC);
        let at = at.strftime("%Y%m%dT%H%M%SZ").to_string();
        let hash = hex(&Sha256::digest(bytes));
        let mut headers = vec![
            ("host", host),
            ("x-amz-content-sha256", &hash),
            ("x-amz-date", &at),
        ];
        if let Some(session) = &self.keys.session {
            headers.push(("x-amz-security-token", session));
        }
        let signed = authorization(&self.keys, path, &headers, &hash, &at);
        let mut request = self.agent.put(format!("{}{path}", self.endpoint));
        // The HTTP client adds the host header itself.
        for (name, value) in &headers[1..] {
            request = request.header(*name, *value);
        }
        let sent = request.header("authorization", signed).send(bytes);
        let mut answer = sent.map_err(|error| (error.to_string(), true))?;
        let status = answer.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let text = answer.body_mut().with_config().limit(4 << 10);
        let text = text.read_to_string().unwrap_or_default();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Err((format!("status {status}: {words}"), status >= 500))
    }
}

/// Returns the value of the `authorization` header of a PUT. `headers` must be sorted by name.
fn authorization(
    keys: &Keys,
    path: &str,
    headers: &[(&str, &str)],
    hash: &str,
    at: &str,
) -> String {
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines = headers
        .iter()
        .fold(String::new(), |mut lines, (name, value)| {
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{name}:{}", value.trim());
            lines
        });
    let request = format!("PUT\n{path}\n\n{lines}\n{names}\n{hash}");
    let (day, _) = at.split_at(at.len().min(8));
    let scope = format!("{day}/{}/s3/aws4_request", keys.region);
    let request = hex(&Sha256::digest(request.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{request}");
    let mut key = mac(format!("AWS4{}", keys.secret).as_bytes(), day.as_bytes());
    for part in [keys.region.as_str(), "s3", "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = hex(&mac(&key, text.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
        keys.id
    )
}

/// HMAC-SHA-256 (RFC 2104).
fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key))
    } else {
        block[..key.len()].copy_from_slice(key)
    }
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text)
        .finalize();
    let outer = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner);
    outer.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Encodes a key for a path: all characters except slashes and the unreserved ones (RFC 3986, 2.3).
fn encoded(key: &str) -> String {
    key.bytes().fold(String::new(), |mut text, byte| {
        let _ = if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            write!(text, "{}", char::from(byte))
        } else {
            write!(text, "%{byte:02X}")
        };
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's page "Signature Calculations for the Authorization Header".
    #[test]
    fn signature_matches_the_specification_example() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session: None,
            region: "us-east-1".to_owned(),
        };
        let hash = hex(&Sha256::digest(b"Welcome to Amazon S3."));
        let at = "20130524T000000Z";
        let headers = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-content-sha256", hash.as_str()),
            ("x-amz-date", at),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let path = format!("/{}", encoded("test$file.text"));
        let signed = authorization(&keys, &path, &headers, &hash, at);
        let signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd";
        assert!(signed.ends_with(signature), "{signed}");
    }

    #[test]
    fn a_key_is_encoded_once() {
        let key = "runs/date=2026-11-03/machine=b%2Fc/part.parquet";
        assert_eq!(
            encoded(key),
            "runs/date%3D2026-11-03/machine%3Db%252Fc/part.parquet"
        );
    }
}
