//! Runs `restart` at a small size: its output, and that no row is missing.

use crate::support::{MACHINE, assert_keys, rows};

#[test]
fn a_restart_has_all_rows_however_it_ended_before() {
    let keys = "spec ending cache threads records updates open_ms first_read_ms first_write_ms loaded_ms log_bytes \
                image_bytes replayed rss_bytes rows_equal round";
    let rows = rows("restart --records 3000 --updates 2000 --threads 1,2");
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_keys(&row, &[keys, MACHINE]);
        assert_eq!(row["rows_equal"], true, "{row}");
        let is_killed = row["ending"] == "killed";
        assert_eq!(row["replayed"], if is_killed { 2000 } else { 0 }, "{row}");
        assert!(row["first_read_ms"].as_f64() >= row["open_ms"].as_f64());
        assert!(row["loaded_ms"].as_f64() >= row["first_write_ms"].as_f64());
    }
}
