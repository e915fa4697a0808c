//! Latency against offered load.

use crate::{fixtures, report};
use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::read::ZlibDecoder;
use kvbench::{
    bench::result::{Loses, Operation},
    engine::LossClass,
};
use std::{collections::BTreeSet, io::Read};

/// The charts of a page, unpacked.
pub(crate) fn charts(page: &str) -> String {
    let packed = page.split(" data-packed=\"").skip(1).filter_map(|part| part.split('"').next());
    let mut text = String::new();
    for part in packed {
        let bytes = BASE64_STANDARD.decode(part).unwrap();
        ZlibDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    }
    text
}

fn page(rates: &[Option<f64>]) -> String {
    let mut run = fixtures::run("rates", 3);
    for store in ["lmdb", "redb"] {
        for rate in rates {
            let mut work = fixtures::workload("read", &[(Operation::Get, 1.0)]);
            work.rate = *rate;
            let row = format!("read at {rate:?}/s");
            let cell = fixtures::cell("rates", &row, store, fixtures::target(store, "no"), work);
            fixtures::add(&mut run, cell, &[rate.unwrap_or(9000.0); 3]);
        }
    }
    charts(&report(&[run], "report.html").1)
}

const TITLE: &str = "Latency and offered load";

#[test]
fn work_at_several_rates_is_a_line_for_each_store() {
    let charts = page(&[Some(4000.0), Some(1000.0), Some(2000.0), None]);
    assert_eq!(charts.matches(TITLE).count(), 1, "{charts}");
    // In the order of the rates; the 99th percentile of the fixture is four seconds by the rate.
    for store in ["lmdb", "redb"] {
        let words = format!("{store}: 4.00 ms at 1.00 k/s, 2.00 ms at 2.00 k/s, 1.00 ms at 4.00 k/s");
        assert!(charts.contains(&words), "no {words} in {charts}");
    }
}

#[test]
fn one_rate_is_no_line() {
    assert!(!page(&[Some(1000.0), None]).contains(TITLE));
    assert!(!page(&[None]).contains(TITLE));
}

/// What writes may lose decides which stores are compared, here as everywhere.
#[test]
fn stores_of_other_loss_bounds_share_no_chart() {
    let drawn = |rates: &[f64]| {
        let mut run = fixtures::run("rates", 3);
        for (store, power_cut) in [("lmdb", LossClass::Everything), ("redb", LossClass::Unwritten)] {
            for rate in rates {
                let mut work = fixtures::workload("write", &[(Operation::Update, 1.0)]);
                work.rate = Some(*rate);
                let mut target = fixtures::target(store, "no");
                target.loses = Some(Loses { kill: LossClass::Nothing, power_cut });
                let cell = fixtures::cell("rates", &format!("write at {rate}/s"), store, target, work);
                fixtures::add(&mut run, cell, &[*rate; 3]);
            }
        }
        charts(&report(&[run], "report.html").1)
    };
    let charts = drawn(&[1000.0, 2000.0]);
    assert_eq!(charts.matches("99th percentile of latency against offered load").count(), 2, "{charts}");
    let losses = charts.split("write: update, 1 threads; ").skip(1).map(|rest| rest.split(['<', '"']).next());
    assert_eq!(losses.collect::<BTreeSet<_>>().len(), 2, "the titles say what each chart has: {charts}");
    assert!(!drawn(&[1000.0]).contains(TITLE), "one rate is no line");
}
