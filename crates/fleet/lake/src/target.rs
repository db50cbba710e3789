//! The destination of an export: a folder or a bucket.

use std::path::{Path, PathBuf};

use crate::LakeError;
use crate::s3::Bucket;

/// A folder, or the part of a bucket below a prefix.
#[derive(Debug)]
pub struct Target(Kind);

#[derive(Debug)]
enum Kind {
    Folder(PathBuf),
    Bucket(Bucket),
}

impl Target {
    /// Parses a URL: `file:///FOLDER`, or `s3://BUCKET/PREFIX` with the keys and the region from
    /// the environment (`AWS_ACCESS_KEY_ID` and so on).
    ///
    /// # Errors
    /// Returns [`LakeError::Place`] for an unsupported URL, and [`LakeError::Object`] if keys are
    /// missing.
    pub fn from_url(
        url: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LakeError> {
        let unusable = || LakeError::Place(url.to_owned());
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            if bucket.is_empty() || !bucket.bytes().all(is_name) {
                return Err(unusable());
            }
            let bucket = Bucket::new(bucket, prefix, variable)?;
            return Ok(Self(Kind::Bucket(bucket)));
        }
        let folder = url.strip_prefix("file://").map(Path::new);
        let folder = folder.filter(|folder| folder.is_absolute());
        folder
            .map(|folder| Self(Kind::Folder(folder.to_owned())))
            .ok_or_else(unusable)
    }

    /// Creates a target for a folder.
    pub fn folder(folder: &Path) -> Self {
        Self(Kind::Folder(folder.to_owned()))
    }

    /// Writes a whole file, replacing an earlier one.
    pub(crate) fn write(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<(), LakeError> {
        match &self.0 {
            Kind::Folder(root) => {
                let folder = root.join(folder);
                punctual_files::folder::make(&folder, 0o755)?;
                punctual_files::Output::file(&folder.join(name))?.put(bytes)?;
                Ok(())
            }
            Kind::Bucket(bucket) => bucket.put_object(&format!("{folder}/{name}"), bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_names_folder_or_bucket() {
        let keys = |name: &str| {
            name.starts_with("AWS_")
                .then(|| "http://127.0.0.1".to_owned())
        };
        for valid in ["file:///lake", "s3://bucket", "s3://my-bucket/a/b/"] {
            assert!(Target::from_url(valid, &keys).is_ok(), "{valid}");
        }
        for bad in [
            "lake",
            "file://lake",
            "s3://",
            "s3://a b/c",
            "gs://bucket",
            "",
        ] {
            assert!(
                matches!(Target::from_url(bad, &keys), Err(LakeError::Place(_))),
                "{bad}"
            );
        }
        let without = Target::from_url("s3://bucket", &|_| None).unwrap_err();
        assert!(
            without.to_string().contains("AWS_ACCESS_KEY_ID"),
            "{without}"
        );
    }
}
