//! Everything private: servers of our own, the limit of the machine beside every figure. Run it with
//! `cargo xtask bench`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that fails ends with a panic"
)]

mod parts;

use std::process::ExitCode;

use postrider_bench::performance;

use parts::plan::{Plan, Purpose};

fn main() -> ExitCode {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let plan = match Plan::of(&words) {
        Ok(plan) => plan,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut well = true;
    if plan.purpose == Purpose::Measure {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        well = runtime.block_on(parts::measure(&plan, |part, measurement| {
            print!("{}", measurement.table());
            if let Some(folder) = &plan.out {
                performance::keep(folder, part, measurement).unwrap();
            }
        }));
    }
    if let (Some(folder), Some(page)) = (&plan.out, &plan.page) {
        std::fs::write(page, performance::performance(&performance::kept(folder).unwrap())).unwrap();
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
