//! The image's part of `namiki check`: every page of every segment, and what no manifest names.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use namiki::OpenError;
use namiki::files::{ImageTable, Manifest, SegmentFile, image_dir, survey_image};
use namiki_platform::disk::Disk;

use crate::failure::Failure;
use crate::interrupt;
use crate::number_format::{bytes, counted};
use crate::progress::Progress;

/// Verifies the image, says what is in it, and returns its length in bytes.
pub(crate) fn check_image(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    manifest: &Manifest,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let survey = survey_image(&**disk, dir, &manifest.image);
    let survey = survey.map_err(|source| Failure::Device {
        doing: "list",
        path: image_dir(dir),
        source,
    })?;
    if let Some(file) = survey.not_in_manifest.first() {
        let file = file.clone();
        return Err(OpenError::SegmentNotInManifest { file }.into());
    }
    let total: u64 = manifest.image.segments().map(SegmentFile::len_bytes).sum();
    let mut progress = Progress::new();
    let mut checked = 0;
    for table in &manifest.image.tables {
        for segment in table.segments() {
            interrupt::check()?;
            let path = segment.file.path_of_named(&**disk, dir);
            let id = segment.id(manifest.identity());
            let found = namiki_segment::check(disk, &path, id, |now| {
                progress.say(|| {
                    let done = u64::from(now.pages_done) * namiki_segment::PAGE_BYTES as u64;
                    format!(
                        "checked {} of {} of the image",
                        bytes(checked + done),
                        bytes(total)
                    )
                });
            })?;
            let (rows, pages) = (found.summary.rows, found.summary.pages);
            if rows != table.rows || pages != segment.pages {
                return Err(Failure::ManifestNonsense {
                    path: Manifest::path(dir),
                    why: format!(
                        "it says that {} has {} in {}, and there are {rows} in {pages}",
                        path.display(),
                        counted(table.rows, "row"),
                        counted(segment.pages.into(), "page"),
                    ),
                });
            }
            checked += segment.len_bytes();
        }
        progress.clear();
        writeln!(out, "{}", describe(table)).map_err(Failure::output)?;
    }
    for left in survey.left {
        writeln!(
            out,
            "{}: left over from a load that did not end; the next opening removes it",
            left.display()
        )
        .map_err(Failure::output)?;
    }
    Ok(checked)
}

/// One line on a table in the image.
pub(crate) fn describe(table: &ImageTable) -> String {
    let key = table.schema.key().iter();
    let key: Vec<&str> = key
        .map(|place| &*table.schema.columns()[*place].name)
        .collect();
    let indexes = table.indexes.iter().map(|index| {
        format!(
            "; index {:?} over {}, {}",
            index.name,
            index.columns.join(", "),
            bytes(index.segment.len_bytes())
        )
    });
    format!(
        "table {:?} in segments: {} by {}, {}{}",
        table.name,
        counted(table.rows, "row"),
        key.join(", "),
        bytes(table.segment.len_bytes()),
        indexes.collect::<String>(),
    )
}
