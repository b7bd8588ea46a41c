//! Opening the database, and whether it is what it should be.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::error::result_code;
use super::group::Group;
use super::{Clock, Policy, Queue, QueueError, fold, turn};

/// The schema, step by step.
static MIGRATIONS: Migrator = sqlx::migrate!();

/// How long a caller waits for a connection of its own process.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections for reading.
const READERS: u32 = 4;

impl Queue {
    /// Opens the database at `path`, makes it if there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// When the file can't be opened, is no database, or belongs to a newer version of the program.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>, policy: Policy) -> Result<Self, QueueError> {
        // Two processes that begin on the same new file would both make its tables.
        let _alone = alone(path)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(turn::PATIENCE)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .pragma("wal_autocheckpoint", fold::PAGES_AT_MOST);
        migrate(path, options.clone()).await?;
        let pool = || {
            SqlitePoolOptions::new()
                .acquire_timeout(ACQUIRE_TIMEOUT)
                // It would ask the connection's thread whether it lives, which takes as long as most of what is read.
                .test_before_acquire(false)
        };
        let writer = pool()
            .max_connections(1)
            .after_connect(|connection, _| Box::pin(turn::take_no_pauses(connection)))
            // When the disk is full, SQLite itself rolls back; sqlx's own attempt then fails, and its connection
            // would refuse to begin another transaction for ever. A fresh one takes its place.
            .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
            .connect_with(options.clone())
            .await
            .map_err(|e| of_opening(path, e))?;
        let reader = pool()
            .max_connections(READERS)
            .connect_with(options.clone().read_only(true))
            .await
            .map_err(|e| of_opening(path, e))?;
        let group = Group::start(writer.clone());
        let folder = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options);
        Ok(Self { writer, reader, group, folder, clock, policy, path: path.into() })
    }

    /// Looks the whole database over. To be called once, before anything relies on it: it takes a while where there
    /// are very many jobs.
    ///
    /// # Errors
    /// [`QueueError::Damaged`], or what reading fails with.
    pub async fn check_whole(&self) -> Result<(), QueueError> {
        let found: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(5)")
            .fetch_all(&self.reader)
            .await
            .map_err(|e| of_opening(&self.path, e))?;
        if found != ["ok"] {
            return Err(QueueError::Damaged { path: self.path.to_path_buf(), found: found.join("; ") });
        }
        Ok(())
    }

    /// Sees that the schema is the one this program knows: another version may have changed it since.
    ///
    /// # Errors
    /// [`QueueError::Schema`], or a database failure.
    pub async fn check_schema(&self) -> Result<(), QueueError> {
        let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
        let latest = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations WHERE success";
        let found: i64 = sqlx::query_scalar(latest).fetch_one(&self.reader).await?;
        if found == known { Ok(()) } else { Err(QueueError::Schema { known, found }) }
    }
}

/// Makes the database if there is none, and brings its schema up to date.
async fn migrate(path: &Path, options: SqliteConnectOptions) -> Result<(), QueueError> {
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
    let pool = pool.map_err(|e| of_opening(path, e))?;
    MIGRATIONS.run(&pool).await.map_err(|e| match e {
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => of_opening(path, e),
        e => QueueError::Migrate(Arc::new(e)),
    })?;
    pool.close().await;
    Ok(())
}

/// What it means when the database can't be opened or looked over.
fn of_opening(path: &Path, cause: sqlx::Error) -> QueueError {
    let path = path.to_path_buf();
    let remedy = match result_code(&cause) {
        // SQLITE_CORRUPT, SQLITE_NOTADB
        Some(11 | 26) => return QueueError::Damaged { path, found: cause.to_string() },
        // SQLITE_ERROR: a statement does not fit the tables
        Some(1) => "its tables are not those of this version of the program: use the one that wrote it",
        // SQLITE_BUSY
        Some(5) => "another process holds it: end that, or wait until it lets go",
        // SQLITE_FULL
        Some(13) => "the disk is full: make room",
        // SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN
        Some(3 | 8 | 14) => "the folder and the file must be writable by this user",
        // SQLITE_IOERR
        Some(10) => "see that the disk is sound and has room, and that the folder is writable",
        _ => "see whether this user can write there",
    };
    QueueError::Open { path, cause: Arc::new(cause), remedy }
}

/// Waits until no other process opens the database, and keeps others waiting until the file is closed.
fn alone(database: &Path) -> Result<File, QueueError> {
    let path = database.with_extension("lock");
    let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
    locked.map_err(|cause| QueueError::Lock { path, cause: cause.into() })
}
