//! Writes what was read from the database.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use serde_json::json;

use crate::process;
use crate::queue::{Distribution, Measures, Millis, Status};
use crate::storage::Space;

/// The metrics whose values come from elsewhere, at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub measures: Measures,
    pub now: Millis,
    pub disk: Option<Space>,
}

/// What the database counts: the name there, the name here, its labels, what it is.
const COUNTERS: [(&str, &str, &[&str], &str); 7] = [
    ("jobs_submitted", "jobs_submitted", &["variant"], "Jobs that were queued"),
    (
        "jobs_ended",
        "jobs_ended",
        &["status", "code"],
        "Jobs that ended, with the error code of those that failed",
    ),
    ("claims", "claims", &[], "Times a worker took a job"),
    (
        "attempts_ended",
        "attempts_ended",
        &["outcome"],
        "Attempts that ended; `lost` are those whose worker was lost",
    ),
    (
        "lease_losses",
        "lease_losses",
        &[],
        "Writes refused since the lease was another's: a worker was too slow",
    ),
    ("expired", "expired", &["what"], "Results whose files were removed, and images that nobody needed"),
    ("webhooks", "webhook_tries", &["outcome"], "Tries to deliver a webhook"),
];

/// What the database measures, likewise.
const HISTOGRAMS: [(&str, &str, &[&str], &str); 2] = [
    ("step_seconds", "denoising_step_seconds", &[], "Seconds of a denoising step"),
    ("stage_seconds", "job_stage_seconds", &["stage"], "Seconds of a stage of the jobs that succeeded"),
];

const STATUSES: [Status; 6] = [
    Status::Queued,
    Status::Running,
    Status::Cancelling,
    Status::Succeeded,
    Status::Failed,
    Status::Cancelled,
];

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let measures = &self.measures;
        let jobs = STATUSES.map(|status| {
            let count = measures.jobs.iter().find(|(of, _)| *of == status).map_or(0, |(_, count)| *count);
            (vec![("status", json!(status).as_str().unwrap_or_default().to_owned())], count as f64)
        });
        gauge(to, "jobs", "Jobs that are stored, by status", jobs)?;
        let age = measures.oldest_queued.map_or(0.0, |at| self.now.seconds_since(at));
        gauge(to, "oldest_queued_seconds", "Age of the oldest job that waits; 0 when none does", one(age))?;
        for (of, name, labels, help) in COUNTERS {
            counter(to, name, help, labels, measures.counters.iter().filter(|(metric, ..)| metric == of))?;
        }
        for (of, name, labels, help) in HISTOGRAMS {
            histogram(to, name, help, labels, measures.histograms.iter().filter(|one| one.metric == of))?;
        }
        gauge(to, "webhooks_waiting", "Webhooks not yet delivered", one(measures.webhooks_waiting as f64))?;
        let of_workers = |value: fn(&Self, &crate::queue::Worker) -> Option<f64>| {
            measures.workers.iter().filter_map(move |worker| Some((labels_of(worker), value(self, worker)?)))
        };
        let seen = of_workers(|this, worker| Some(this.now.seconds_since(worker.seen_at)));
        gauge(
            to,
            "worker_last_seen_seconds",
            "Seconds since a worker last asked for a job or renewed a lease",
            seen,
        )?;
        let memory = of_workers(|_, worker| worker.resident_bytes.map(|bytes| bytes as f64));
        gauge(to, "worker_resident_bytes", "Memory of a worker process", memory)?;
        let own = process::resident_bytes().map(|bytes| (Vec::new(), bytes as f64));
        gauge(to, "server_resident_bytes", "Memory of the process that answers", own)?;
        let disk =
            |value: fn(&Space) -> u64| self.disk.iter().map(move |disk| (Vec::new(), value(disk) as f64));
        gauge(to, "disk_free_bytes", "Room on the disk of the data directory", disk(|disk| disk.free))?;
        gauge(to, "disk_size_bytes", "Size of the disk of the data directory", disk(|disk| disk.size))
    }
}

type Labels = Vec<(&'static str, String)>;

fn labels_of(worker: &crate::queue::Worker) -> Labels {
    vec![("worker", worker.name.clone()), ("device", worker.device.clone())]
}

fn one(value: f64) -> [(Labels, f64); 1] {
    [(Vec::new(), value)]
}

fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels, f64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn counter<'a>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    labels: &[&'static str],
    values: impl Iterator<Item = &'a (String, String, u64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    let mut none = labels.is_empty();
    for (_, label, value) in values {
        metric.encode_family(&split(labels, label))?.encode_counter::<NoLabelSet, _, f64>(value, None)?;
        none = false;
    }
    // What never happened is known where no label has to be.
    if none {
        metric.encode_counter::<NoLabelSet, _, f64>(&0_u64, None)?;
    }
    Ok(())
}

fn histogram<'a>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    labels: &[&'static str],
    values: impl Iterator<Item = &'a Distribution>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for one in values {
        let count = one.buckets.iter().map(|(_, count)| count).sum();
        let labels = split(labels, &one.label);
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(one.sum, count, &one.buckets, None)?;
    }
    Ok(())
}

/// The database joins the values of several labels with colons.
fn split(labels: &[&'static str], joined: &str) -> Labels {
    labels.iter().copied().zip(joined.split(':').map(str::to_owned)).collect()
}
