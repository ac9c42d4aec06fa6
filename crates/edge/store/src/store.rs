//! Experiments and their records in an SQLite file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use fabricmark_record::{Instrument, Record, SCHEMA_VERSION};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Params, Row, Transaction, TransactionBehavior, params,
};
use rusqlite_migration::{M, MigrationDefinitionError, Migrations};

use crate::error::StoreError;

/// An open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

/// Facts about an experiment that are known before its first run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Digest of the resolved plan.
    pub digest: String,
    /// Path of the plan file as the user gave it.
    pub plan_file: String,
    /// The plan's text.
    pub plan_text: String,
    /// Whether the plan's `[quick]` table is applied.
    pub is_quick: bool,
    /// Command that reproduces the experiment.
    pub reproduce: String,
    /// Start time in RFC 3339.
    pub started: String,
    /// Overhead of the instrument itself.
    pub instrument: Option<Instrument>,
    /// The other host as the user named it; `None` if there is none.
    pub host: Option<String>,
    /// Description of the network to that host, as given.
    pub link: Option<String>,
}

/// One execution of a plan.
#[derive(Clone, Debug)]
pub struct Experiment {
    id: i64,
    /// Unique name in the store.
    pub name: String,
    /// Facts from its start.
    pub facts: Facts,
    /// Whether all runs of the plan are done.
    pub is_complete: bool,
}

/// Schema and migrations. An existing migration is never changed; new ones are appended.
static MIGRATIONS: LazyLock<Migrations<'static>> = LazyLock::new(|| {
    Migrations::new(vec![
        M::up(
            "CREATE TABLE experiment (
            id         INTEGER PRIMARY KEY,
            name       TEXT NOT NULL UNIQUE,
            digest     TEXT NOT NULL,     -- of the resolved plan
            plan_file  TEXT NOT NULL,     -- as the user named it
            plan_text  TEXT NOT NULL,
            is_quick   INTEGER NOT NULL,
            reproduce  TEXT NOT NULL,     -- the command that gives it again
            started    TEXT NOT NULL,     -- RFC 3339
            instrument TEXT NOT NULL,     -- JSON
            is_complete INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX experiment_by_digest ON experiment (digest);
        CREATE TABLE record (
            experiment INTEGER NOT NULL REFERENCES experiment (id),
            block      INTEGER NOT NULL,
            place      INTEGER NOT NULL,
            json       TEXT NOT NULL,
            PRIMARY KEY (experiment, block, place)
        ) STRICT, WITHOUT ROWID;",
        ),
        M::up(
            "ALTER TABLE experiment ADD COLUMN host TEXT;  -- the other host, where there was one
        ALTER TABLE experiment ADD COLUMN link TEXT;   -- what was said of the network to it",
        ),
    ])
});

const COLUMNS: &str = "id, name, digest, plan_file, plan_text, is_quick, reproduce, started, \
                       instrument, is_complete, host, link";

impl Store {
    /// Opens a store; creates it if it does not exist, and migrates an older one.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            create(path)?;
        }
        Ok(Self { path: path.to_owned(), connection: connect(path, path)? })
    }

    /// Opens an existing store for reading. An older one is migrated in a copy in memory.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if !path.is_file() {
            let message = "there is no such file; `fabricmark run` creates it".to_owned();
            return Err(StoreError::Unusable { path: path.to_owned(), message });
        }
        let sqlite = StoreError::from_sqlite(path);
        // One that is open for reading only would leave the files of the WAL behind.
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
        let mut connection = connection.map_err(&sqlite)?;
        prepare(&connection).map_err(&sqlite)?;
        if MIGRATIONS.pending_migrations(&connection).map_err(migration_error(path))? != 0 {
            connection = copy_in_memory(&connection, path)?;
            MIGRATIONS.to_latest(&mut connection).map_err(migration_error(path))?;
        }
        connection.pragma_update(None, "query_only", true).map_err(&sqlite)?;
        Ok(Self { path: path.to_owned(), connection })
    }

    fn error(&self) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        StoreError::from_sqlite(&self.path)
    }

    fn execute(&self, sql: &str, values: impl Params) -> Result<(), StoreError> {
        self.connection.execute(sql, values).map(drop).map_err(self.error())
    }

    /// Stores a new experiment, under the first free name of `stem` and a number.
    pub fn begin(&self, stem: &str, facts: &Facts) -> Result<Experiment, StoreError> {
        let instrument = serde_json::to_string(&facts.instrument).expect("figures are plain data");
        // Another process may begin at the same time.
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate);
        let transaction = transaction.map_err(self.error())?;
        let taken: Vec<String> = self.experiments()?.into_iter().map(|known| known.name).collect();
        let name = (1..)
            .map(|number| format!("{stem}-{number}"))
            .find(|name| !taken.contains(name))
            .expect("there are more numbers than experiments");
        self.execute(
            "INSERT INTO experiment (name, digest, plan_file, plan_text, is_quick, reproduce, started, instrument, \
                                     host, link) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                name, facts.digest, facts.plan_file, facts.plan_text, facts.is_quick, facts.reproduce, facts.started,
                instrument, facts.host, facts.link
            ],
        )?;
        transaction.commit().map_err(self.error())?;
        self.find(&name)
    }

    /// The latest experiment with this digest.
    pub fn latest_of(&self, digest: &str) -> Result<Option<Experiment>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM experiment WHERE digest = ?1 ORDER BY id DESC");
        self.connection.query_row(&sql, [digest], experiment).optional().map_err(self.error())
    }

    /// The experiment of this name; `latest` is the one that was started last.
    pub fn find(&self, name: &str) -> Result<Experiment, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM experiment WHERE name = ?1 OR ?1 = 'latest' ORDER BY id DESC"
        );
        let found =
            self.connection.query_row(&sql, [name], experiment).optional().map_err(self.error())?;
        if let Some(found) = found {
            return Ok(found);
        }
        let names: Vec<String> = self.experiments()?.into_iter().map(|known| known.name).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(StoreError::NoSuchExperiment { name: name.to_owned(), path: self.path.clone(), known })
    }

    /// All experiments, oldest first.
    pub fn experiments(&self) -> Result<Vec<Experiment>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM experiment ORDER BY id");
        let mut statement = self.connection.prepare(&sql).map_err(self.error())?;
        let rows = statement.query_map([], experiment).map_err(self.error())?;
        rows.collect::<Result<_, _>>().map_err(self.error())
    }

    /// Stores records in one transaction; they are durable when this returns.
    pub fn append(&self, experiment: &Experiment, records: &[Record]) -> Result<(), StoreError> {
        let insert = || {
            let transaction = self.connection.unchecked_transaction()?;
            for record in records {
                let json = serde_json::to_string(record).expect("a record is plain data");
                let place = &record.place;
                transaction.execute(
                    "INSERT INTO record (experiment, block, place, json) VALUES (?1, ?2, ?3, ?4)",
                    params![experiment.id, place.block, place.place, json],
                )?;
            }
            transaction.commit()
        };
        insert().map_err(self.error())
    }

    /// The records of an experiment, in the order of its runs.
    pub fn records(&self, experiment: &Experiment) -> Result<Vec<Record>, StoreError> {
        let mut statement = self
            .connection
            .prepare("SELECT json FROM record WHERE experiment = ?1 ORDER BY block, place")
            .map_err(self.error())?;
        let rows = statement
            .query_map([experiment.id], |row| row.get::<_, String>(0))
            .map_err(self.error())?;
        rows.map(|json| self.record(&json.map_err(self.error())?)).collect()
    }

    fn record(&self, json: &str) -> Result<Record, StoreError> {
        let record: Record = serde_json::from_str(json).map_err(|error| StoreError::Unusable {
            path: self.path.clone(),
            message: format!("a record cannot be read: {error}"),
        })?;
        if record.schema > SCHEMA_VERSION {
            return Err(StoreError::Newer { path: self.path.clone() });
        }
        Ok(record)
    }

    /// Replaces an experiment's digest by the one that this version computes of its plan.
    pub fn set_digest(&self, experiment: &Experiment, digest: &str) -> Result<(), StoreError> {
        let sql = "UPDATE experiment SET digest = ?2 WHERE id = ?1";
        self.execute(sql, params![experiment.id, digest])
    }

    /// Replaces the text of an experiment's plan by another one with the same points, which may show them otherwise.
    pub fn set_plan(
        &self,
        experiment: &mut Experiment,
        file: &str,
        text: &str,
        is_quick: bool,
    ) -> Result<(), StoreError> {
        let sql =
            "UPDATE experiment SET plan_file = ?2, plan_text = ?3, is_quick = ?4 WHERE id = ?1";
        self.execute(sql, params![experiment.id, file, text, is_quick])?;
        let facts = &mut experiment.facts;
        (facts.plan_file, facts.plan_text) = (file.to_owned(), text.to_owned());
        facts.is_quick = is_quick;
        Ok(())
    }

    /// Marks an experiment as complete.
    pub fn complete(&self, experiment: &Experiment) -> Result<(), StoreError> {
        self.execute("UPDATE experiment SET is_complete = 1 WHERE id = ?1", [experiment.id])
    }
}

/// Creates a store under a temporary name, then links it into place: no process opens a partial one.
fn create(path: &Path) -> Result<(), StoreError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let fresh = path.with_extension(format!("new-{}-{number}", std::process::id()));
    drop(connect(&fresh, path)?);
    // Unlike a rename, a link does not replace a store that another process created meanwhile.
    let linked = fs::hard_link(&fresh, path);
    // If it fails, a file remains that is never opened.
    let _ = fs::remove_file(&fresh);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(StoreError::Unusable { path: path.to_owned(), message: error.to_string() })
        }
        _ => Ok(()),
    }
}

/// Opens and migrates `file`; errors name `path`.
fn connect(file: &Path, path: &Path) -> Result<Connection, StoreError> {
    let sqlite = StoreError::from_sqlite(path);
    let mut connection = Connection::open(file).map_err(&sqlite)?;
    prepare(&connection).map_err(&sqlite)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(&sqlite)?;
    // A finished run survives a power failure; the write happens between runs.
    connection.pragma_update(None, "synchronous", "FULL").map_err(&sqlite)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(&sqlite)?;
    MIGRATIONS.to_latest(&mut connection).map_err(migration_error(path))?;
    Ok(connection)
}

fn migration_error(path: &Path) -> impl Fn(rusqlite_migration::Error) -> StoreError + '_ {
    move |error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => StoreError::from_sqlite(path)(err),
        rusqlite_migration::Error::MigrationDefinition(
            MigrationDefinitionError::DatabaseTooFarAhead,
        ) => StoreError::Newer { path: path.to_owned() },
        other => StoreError::Unusable { path: path.to_owned(), message: other.to_string() },
    }
}

fn copy_in_memory(store: &Connection, path: &Path) -> Result<Connection, StoreError> {
    const ALL_PAGES: i32 = -1;
    let sqlite = StoreError::from_sqlite(path);
    let mut copy = Connection::open_in_memory().map_err(&sqlite)?;
    prepare(&copy).map_err(&sqlite)?;
    let backup = Backup::new(store, &mut copy).map_err(&sqlite)?;
    let result = backup.step(ALL_PAGES).map_err(&sqlite)?;
    drop(backup);
    match result {
        StepResult::Done => Ok(copy),
        _ => Err(StoreError::Busy { path: path.to_owned() }),
    }
}

/// What holds for every connection.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // Another writer commits within milliseconds.
    connection.busy_timeout(Duration::from_secs(5))?;
    // A store may come from another host: its views and triggers must not call functions with effects (sqlite.org,
    // pragma trusted_schema).
    connection.pragma_update(None, "trusted_schema", false)
}

fn experiment(row: &Row<'_>) -> rusqlite::Result<Experiment> {
    let instrument: String = row.get(8)?;
    Ok(Experiment {
        id: row.get(0)?,
        name: row.get(1)?,
        facts: Facts {
            digest: row.get(2)?,
            plan_file: row.get(3)?,
            plan_text: row.get(4)?,
            is_quick: row.get(5)?,
            reproduce: row.get(6)?,
            started: row.get(7)?,
            instrument: serde_json::from_str(&instrument).ok(),
            host: row.get(10)?,
            link: row.get(11)?,
        },
        is_complete: row.get(9)?,
    })
}
