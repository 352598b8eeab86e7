//! Damaged blocks of an image of the tables: of a node that is down, and of one that runs and serves.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::damage::wait_for_equal_states;
use crate::images::Rows;
use crate::operate::wait_for;
use crate::{Cluster, namiki, put_rows};

/// A device damages a block at a time.
const BLOCK_BYTES: usize = 4096;

/// The files of a node's image with rows.
fn image_files(cluster: &Cluster, node: u64) -> Vec<PathBuf> {
    let data = cluster.0.path().join(format!("node-{node}/data"));
    let folders = ["db", "db2"].map(|folder| data.join(folder).join("image"));
    let files = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let files = files.flatten().map(|file| file.unwrap().path());
    let is_large = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.len() > 100_000);
    files.filter(is_large).collect()
}

/// Damages every tenth block of a file.
fn damage(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for (block, bytes) in bytes.chunks(BLOCK_BYTES).enumerate().step_by(10) {
        let flipped: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        let at = (block * BLOCK_BYTES) as u64;
        file.write_all_at(&flipped, at).unwrap();
    }
}

fn damage_image(cluster: &Cluster, node: u64) {
    let files = image_files(cluster, node);
    assert!(!files.is_empty(), "node {node} has an image");
    files.iter().for_each(|path| damage(path));
}

#[test]
fn a_damaged_image_heals_while_the_cluster_serves() {
    let cluster = Cluster::start_with(&["--max-log=128", "--metrics"]);
    let mut client = cluster.client();
    let mut rows = Rows::of(&mut client);
    let few = client.create_table("few", true).unwrap();
    let mut session = client.open_session().unwrap();
    // The image's rows stay as they are.
    let mut serves = || put_rows(&mut session, few, 0..10);
    rows.write(40);
    for node in 1..=3 {
        wait_for("a node has an image", || {
            cluster.page(node).get("images_written_total") >= 1.0
        });
    }
    let leader = cluster.leader_other_than(None);
    let (down, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);

    // Of a node that is down. Without the third one, nothing is committed unless it votes and acknowledges.
    for node in [down, third] {
        cluster.works(&["kill", &node.to_string()]);
    }
    damage_image(&cluster, down);
    cluster.works(&["restart", &down.to_string()]);
    rows.write(2);
    wait_for("the node has started without tables", || {
        cluster
            .log(down)
            .contains("copies an image of another node")
    });
    cluster.works(&["restart", &third.to_string()]);
    rows.write(1);
    wait_for_equal_states(&cluster);
    // It has started again with the image, and goes on counting.
    let page = cluster.page(down);
    assert!(page.get("tables_lost_total") >= 1.0);
    assert!(page.get("image_bytes_copied_total") > 0.0);
    assert!(page.get("without_tables") < 0.5);

    // Of a node that runs: it finds the damage when the image is read, and writes the rows again from memory.
    let running = cluster.leader_other_than(None).to_string();
    let back_up = |name: &str| {
        let backup = cluster.0.path().join(name);
        let backup = backup.to_str().unwrap();
        let dir = cluster.dir();
        let output = namiki(&["--dir", dir, "backup", backup, "--node", &running]);
        let said = String::from_utf8(output.stderr).unwrap();
        let is_done = output.status.code() == Some(0);
        assert!(is_done || said.contains("is damaged"), "{said}");
        is_done
    };
    // All rows are in its image.
    assert!(back_up("one"));
    let node = running.parse().unwrap();
    damage_image(&cluster, node);
    serves();
    wait_for("the image is whole again", || back_up("two"));
    assert!(cluster.page(node).get("image_files_damaged_total") >= 1.0);
    serves();
    wait_for_equal_states(&cluster);
    // Nothing is left of the damage: the node has its tables after a restart.
    cluster.works(&["kill", &running]);
    cluster.works(&["restart", &running]);
    serves();
    wait_for_equal_states(&cluster);
    assert!(cluster.page(node).get("tables_lost_total") < 0.5);
    rows.check(&cluster);
}
