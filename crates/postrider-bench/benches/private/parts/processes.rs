//! What processes of this machine have used, as the kernel counts it.

use std::fs;
use std::path::Path;

/// Seconds of processor time of a server with its children, those that have ended included.
pub fn server_seconds(data: &Path) -> f64 {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap();
    let postmaster: u32 = text.lines().next().unwrap().trim().parse().unwrap();
    let mut ticks = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some(fields) = stat(pid) else { continue };
        // Counted from the state: parent 1, user 11, system 12, of ended children 13 and 14.
        if pid == postmaster {
            ticks += fields[11] + fields[12] + fields[13] + fields[14];
        } else if fields[1] == u64::from(postmaster) {
            ticks += fields[11] + fields[12];
        }
    }
    seconds(ticks)
}

/// Seconds of processor time of one process.
pub fn process_seconds(pid: u32) -> f64 {
    stat(pid).map_or(0.0, |fields| seconds(fields[11] + fields[12]))
}

/// The largest resident set of a process, in MB.
pub fn peak_megabytes(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0.0);
    kilobytes * 1_024.0 / 1e6
}

/// The numbers after the name of the program; what is no number is zero.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<u64> = rest.split(' ').map(|field| field.trim().parse().unwrap_or(0)).collect();
    (fields.len() > 14).then_some(fields)
}

/// Linux counts in hundredths of a second.
fn seconds(ticks: u64) -> f64 {
    f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / 100.0
}
