//! Bodies of deliveries, received and decompressed with limits.

use std::cell::RefCell;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use punctual_files::Budget;
use tokio::sync::OwnedSemaphorePermit;
use zstd::bulk::Decompressor;

use crate::config::Limits;
use crate::problem::{BUSY, Problem};
use crate::state::App;

/// The largest accepted zstd window, as a power of two: 8 MiB, which every decoder supports (RFC
/// 8878, 3.1.1.1.2).
const WINDOW_LOG: u32 = 23;

/// A body with its share of the memory for all bodies. Bodies that are waiting for the store use
/// this memory as well.
pub(super) struct Sent {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Receives a compressed body. Its length must be stated, and a body that is too large is not read.
pub(super) async fn receive(app: &App, headers: &HeaderMap, body: Body) -> Result<Sent, Problem> {
    let packed = headers.get(header::CONTENT_ENCODING);
    if packed.and_then(|value| value.to_str().ok()) != Some("zstd") {
        let message = "compress the body with zstd (Content-Encoding: zstd)";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let Limits {
        body: most,
        patience,
        ..
    } = app.config.limits;
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let length = length.ok_or_else(|| {
        let message = "the header Content-Length is missing";
        Problem::new(StatusCode::LENGTH_REQUIRED, message)
    })?;
    if length > most {
        let message = format!("the body has {length} bytes, but the limit is {most}");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    let read = tokio::time::timeout(patience, read(app, body, length)).await;
    read.unwrap_or_else(|_| {
        let message = "the body took too long";
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, message))
    })
}

/// Reads a body of `length` bytes. Memory is reserved as the bytes arrive, so a client that
/// announces a large body but sends little takes little memory from others.
async fn read(app: &App, body: Body, length: usize) -> Result<Sent, Problem> {
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    let other_length =
        || Problem::bad_request("the length of the body differs from the header Content-Length");
    while let Some(frame) = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await
    {
        let Ok(data) = frame.map_err(|_| other_length())?.into_data() else {
            continue;
        };
        bytes.extend_from_slice(&data);
        if bytes.len() > length {
            return Err(other_length());
        }
        let taken = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(bytes.len().div_ceil(1 << 10) - taken).unwrap_or(u32::MAX);
        let more = Arc::clone(&app.room)
            .try_acquire_many_owned(more)
            .map_err(|_| Problem::busy("too many deliveries at once: try again later", BUSY))?;
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
    }
    if bytes.len() < length {
        return Err(other_length());
    }
    let bytes = Bytes::from(bytes);
    Ok(Sent { bytes, _room: room })
}

thread_local! {
    /// A decompressor that is reused, because creating one costs more than decompressing a small
    /// body.
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decompresses a body that states its length. Returns `None` if it does not, or if the length is
/// wrong or too large.
fn unpack_whole(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let length = zstd::zstd_safe::get_frame_content_size(bytes).ok()??;
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= most)?;
    UNPACKER.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Decompressor::new().ok();
        }
        let unpacked = kept.as_mut()?.decompress(bytes, length).ok()?;
        (unpacked.len() == length).then_some(unpacked)
    })
}

/// Decompresses a body to at most `most` bytes, because it may be a decompression bomb.
pub(crate) fn unpack(bytes: &[u8], most: usize) -> Result<Vec<u8>, Problem> {
    unpack_with(bytes, most, &[])
}

/// Decompresses a body that was compressed with this dictionary, or without one if it is empty.
pub(super) fn unpack_with(
    bytes: &[u8],
    most: usize,
    dictionary: &[u8],
) -> Result<Vec<u8>, Problem> {
    if dictionary.is_empty()
        && let Some(whole) = unpack_whole(bytes, most)
    {
        return Ok(whole);
    }
    let not_zstd = |_| Problem::bad_request("the body is not valid zstd");
    let decoder = zstd::stream::read::Decoder::with_dictionary(bytes, dictionary);
    let mut decoder = decoder.map_err(not_zstd)?;
    decoder.window_log_max(WINDOW_LOG).map_err(not_zstd)?;
    let body = Budget::bytes(most as u64 + 1).up_to(decoder);
    let body = body.map_err(not_zstd)?;
    if body.len() > most {
        Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the decompressed body has more than {most} bytes"),
        ))
    } else {
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_is_not_unpacked() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
        assert!(bomb.len() < 64 << 10);
        let refused = unpack(&bomb, 1 << 20).unwrap_err();
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(unpack(&bomb, 64 << 20).unwrap().len(), 64 << 20);
    }

    #[test]
    fn what_is_no_zstd_is_refused() {
        for bytes in [&b"{}"[..], &[0x28, 0xb5, 0x2f, 0xfd, 0xff], &[0; 64]] {
            let refused = unpack(bytes, 1 << 20).unwrap_err();
            assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        }
    }
}
