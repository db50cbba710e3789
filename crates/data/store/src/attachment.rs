//! Attachments of a recording: its writer stores them, and the store reads them back.

use punctual_model::{FromJson, Outlier, RecordingId, ToJson, Window};

use crate::attachment_rows::{self, Attached, Row, WINDOW};
use crate::entry::{Entry, still_there};
use crate::{Store, StoreError, Writer};

impl Writer {
    /// Stores the events around an explained outlier. Once this returns, they survive kill -9.
    /// Replaces an earlier window with the same number. A long window is
    /// [shortened](Window::shortened).
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn keep_window(&mut self, outlier: &Outlier, window: &Window) -> Result<(), StoreError> {
        let body = window.clone().shortened().to_json();
        self.attach(WINDOW, outlier.number, &outlier.to_json(), body.as_bytes())
    }

    /// Removes everything that is attached to an outlier, because a larger outlier has taken its
    /// place.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn forget_outlier(&mut self, number: u64) -> Result<(), StoreError> {
        let key = self.key;
        self.link.write(|connection, context| {
            attachment_rows::remove(connection, key, number).map_err(|error| context.on(error))
        })
    }

    /// Attaches data to the recording, with a description in JSON (`about`). Replaces an existing
    /// attachment of the same kind and number.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`] if the recording was deleted, or any error while writing.
    pub fn attach(
        &mut self,
        kind: &str,
        number: u64,
        about: &str,
        body: &[u8],
    ) -> Result<(), StoreError> {
        let (key, id) = (self.key, self.id());
        let row = Row::new(key, kind, number, about, body)?;
        self.link.write(|connection, context| {
            still_there(connection, context, key, id)?;
            let written = row.write(connection, key, kind, number);
            written.map_err(|error| context.on(error))
        })
    }
}

impl Store {
    /// Lists the attachments of a recording, ordered by kind and number.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], or any error while reading.
    pub fn attachments(&self, id: RecordingId) -> Result<Vec<Attached>, StoreError> {
        self.read(|connection, context| {
            let (key, _) = Entry::find(connection, id, context)?;
            attachment_rows::attached(connection, key).map_err(|error| context.on(error))
        })
    }

    /// Reads one attachment: its description and its content.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::Damaged`], or any error while reading.
    pub fn attachment(
        &self,
        id: RecordingId,
        kind: &str,
        number: u64,
    ) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.read(|connection, context| {
            let (key, _) = Entry::find(connection, id, context)?;
            let damaged = || context.damaged_in(id, &format!("its {kind} {number} was changed"));
            let Some(row) = Row::read(connection, key, kind, number, context)? else {
                return Ok(None);
            };
            let unpacked = row.unpack(key, kind, number).ok_or_else(damaged)?;
            Ok(Some((row.about, unpacked)))
        })
    }

    /// Reads the events around an explained outlier, together with the analysis. Returns `None` if
    /// they are not stored.
    ///
    /// # Errors
    /// Same as [`attachment`](Self::attachment).
    pub fn window(
        &self,
        id: RecordingId,
        number: u64,
    ) -> Result<Option<(Outlier, Window)>, StoreError> {
        let Some((about, body)) = self.attachment(id, WINDOW, number)? else {
            return Ok(None);
        };
        let read = |error: serde_json::Error| {
            let what = format!("trace window {number} cannot be read: {error}");
            self.link.context.damaged_in(id, &what)
        };
        let outlier = Outlier::from_json(about.as_bytes()).map_err(read)?;
        let window = Window::from_json(&body).map_err(read)?;
        let segments = window.segments.iter();
        let checked = segments.map(|segment| segment.cause.check());
        checked
            .chain([outlier.blame.check()])
            .collect::<Result<(), _>>()
            .map_err(|error| {
                let what = format!("trace window {number} contains invalid values: {error}");
                self.link.context.damaged_in(id, &what)
            })?;
        // The number of events is limited here too, because processing them takes time.
        Ok(Some((outlier, window.shortened())))
    }
}
