//! The tables, and how older files become newer ones. A migration is never changed, only followed.

use std::sync::LazyLock;

use rusqlite_migration::{M, Migrations};

pub(crate) static MIGRATIONS: LazyLock<Migrations<'static>> = LazyLock::new(|| {
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
