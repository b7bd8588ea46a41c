//! `storymem keys`: who may use the API.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::bail;

use crate::config::DataConfig;
use crate::queue::{KeyRecord, Policy, Queue, SystemClock};
use crate::storage::Storage;

/// Makes, lists and revokes API keys; takes effect at once, without a restart.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Makes a key and prints it, once. From the first one on the API is closed to whoever has none
    Add {
        #[command(flatten)]
        data: DataConfig,
        /// Whose key it is: an owner sees his own jobs only, and may have several keys
        #[arg(long, value_name = "NAME", value_parser = owner)]
        owner: String,
        /// Most jobs of the owner that have not ended; without it there is no limit
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
        max_jobs: Option<u32>,
    },
    /// Lists the keys, without their secrets
    List {
        #[command(flatten)]
        data: DataConfig,
    },
    /// Revokes a key for good
    Revoke {
        #[command(flatten)]
        data: DataConfig,
        /// The key's id, as `list` shows it
        id: String,
    },
}

/// Runs the command.
///
/// # Errors
/// When the data directory can't be used, or there is no such key.
pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match args.action {
            Action::Add { data, owner, max_jobs } => {
                let queue = open(&data).await?;
                let key = queue.add_key(&owner, max_jobs).await?;
                queue.close().await;
                eprintln!("the key `{}` of `{owner}`; it is shown this once:", key.record.id);
                writeln!(io::stdout(), "{}", key.text)?;
            }
            Action::List { data } => {
                let queue = open(&data).await?;
                let keys = queue.keys().await?;
                queue.close().await;
                for key in keys {
                    writeln!(io::stdout(), "{}", line(&key))?;
                }
            }
            Action::Revoke { data, id } => {
                let queue = open(&data).await?;
                let revoked = queue.revoke_key(&id).await?;
                queue.close().await;
                if !revoked {
                    bail!("there is no key `{id}` that is not revoked; see `storymem keys list`");
                }
            }
        }
        Ok(())
    })
}

async fn open(data: &DataConfig) -> anyhow::Result<Queue> {
    let storage = Storage::open(&data.data_dir)?;
    Ok(Queue::open(&storage.database(), Arc::new(SystemClock), Policy::default()).await?)
}

fn line(key: &KeyRecord) -> String {
    let limit = key.max_jobs.map_or("no limit".to_owned(), |most| format!("at most {most} jobs"));
    let since = key.created_at.to_utc().format("%F %T");
    let state =
        key.revoked_at.map_or("good".to_owned(), |at| format!("revoked {}", at.to_utc().format("%F %T")));
    format!("{}  {:<24}  {limit:<20}  made {since}  {state}", key.id, key.owner)
}

fn owner(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_alphanumeric() || "-_.@".contains(c);
    match text.chars().count() {
        1..=64 if text.chars().all(good) => Ok(text.to_owned()),
        _ => Err("must be 1 to 64 letters, digits, `-`, `_`, `.` or `@`".to_owned()),
    }
}
