//! A private instance of MariaDB or PostgreSQL, with its own folder and port.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::{Database, Url};

/// A database program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    MariaDb,
    PostgreSql,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mariadb" => Ok(Self::MariaDb),
            "postgresql" => Ok(Self::PostgreSql),
            _ => Err(format!("`{text}` is no database engine: use mariadb or postgresql")),
        }
    }
}

/// Why an instance was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{program} is missing: install it (Debian, Ubuntu: apt-get install {package})")]
    Missing { program: &'static str, package: &'static str },
    #[error("{0}: {1}")]
    Folder(PathBuf, io::Error),
    #[error(
        "user nobody, as whom the database runs, cannot enter {0}: choose a folder elsewhere, such as below /var/tmp"
    )]
    Closed(PathBuf),
    #[error("{program} failed:\n{said}")]
    Failed { program: &'static str, said: String },
    #[error("the database does not answer within {0:?}: {1}; see the file log in its folder")]
    Silent(Duration, sqlx::Error),
}

/// A running instance. It is killed when this is dropped; its folder stays.
#[derive(Debug)]
pub struct Instance {
    child: Child,
    /// Its address.
    pub url: Url,
}

/// User and group `nobody` of Debian. Neither database runs as root.
const NOBODY: u32 = 65_534;

/// How long an instance may take to answer: an estimate for a slow disk (it takes below 1 s here).
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

impl Instance {
    /// Creates an instance in an empty folder, and starts it at a port of 127.0.0.1.
    pub async fn start(engine: Engine, folder: &Path, port: u16) -> Result<Self, Error> {
        let wrong = |error| Error::Folder(folder.to_owned(), error);
        fs::create_dir_all(folder.join("data")).map_err(wrong)?;
        let folder = &folder.canonicalize().map_err(wrong)?;
        let data = folder.join("data");
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            let is_closed =
                |path: &&Path| fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 == 0);
            if let Some(closed) = folder.ancestors().skip(1).find(is_closed) {
                return Err(Error::Closed(closed.to_owned()));
            }
            for path in [folder, &data] {
                chown(path, Some(NOBODY), Some(NOBODY)).map_err(wrong)?;
            }
        }
        let unprivileged = |program: &Path| {
            let mut command = Command::new(program);
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command.stdin(Stdio::null()).current_dir(folder);
            command
        };
        let log = fs::File::create(folder.join("log")).map_err(wrong)?;
        let (mut server, url) = match engine {
            Engine::MariaDb => {
                let install = find("mariadb-install-db", "mariadb-server-core")?;
                let mut create = unprivileged(&install);
                create.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
                create.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
                create.arg(format!("--tmpdir={}", folder.display()));
                run("mariadb-install-db", &mut create)?;
                let first = folder.join("first.sql");
                let statements = "DROP USER IF EXISTS ''@'localhost';\nCREATE DATABASE IF NOT EXISTS shop;\n\
                                  CREATE USER IF NOT EXISTS shop@'%';\nGRANT ALL ON shop.* TO shop@'%';\n";
                fs::write(&first, statements).map_err(wrong)?;
                let mut server = unprivileged(&find("mariadbd", "mariadb-server-core")?);
                server.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
                server.arg(format!("--tmpdir={}", folder.display()));
                server.arg(format!("--socket={}", folder.join("socket").display()));
                server
                    .arg(format!("--init-file={}", first.display()))
                    .arg(format!("--port={port}"));
                server.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"]);
                server.args([
                    "--innodb-buffer-pool-size=512M",
                    "--innodb-log-file-size=256M",
                    "--max-connections=300",
                ]);
                (server, format!("mariadb://shop@127.0.0.1:{port}/shop"))
            }
            Engine::PostgreSql => {
                let mut create = unprivileged(&find("initdb", "postgresql")?);
                create
                    .args(["--auth=trust", "--username=shop", "--encoding=UTF8", "--pgdata"])
                    .arg(&data);
                run("initdb", &mut create)?;
                let mut server = unprivileged(&find("postgres", "postgresql")?);
                server.arg("-D").arg(&data).arg("-k").arg(folder).args(["-p", &port.to_string()]);
                server.args([
                    "-c",
                    "shared_buffers=512MB",
                    "-c",
                    "max_wal_size=4GB",
                    "-c",
                    "max_connections=300",
                ]);
                (server, format!("postgresql://shop@127.0.0.1:{port}/postgres"))
            }
        };
        let again = log.try_clone().map_err(wrong)?;
        let program = if engine == Engine::MariaDb { "mariadbd" } else { "postgres" };
        let failed = |error: io::Error| Error::Failed { program, said: error.to_string() };
        let child = server.stdout(log).stderr(again).spawn().map_err(failed)?;
        let url = url.parse().map_err(|said| Error::Failed { program, said })?;
        let mut instance = Self { child, url };
        instance.wait(program, folder).await?;
        Ok(instance)
    }

    /// Waits until the instance answers.
    async fn wait(&mut self, program: &'static str, folder: &Path) -> Result<(), Error> {
        let until = Instant::now() + ANSWERS_WITHIN;
        loop {
            let Err(error) = Database::open(&self.url, 1).await else { return Ok(()) };
            if let Ok(Some(_)) = self.child.try_wait() {
                let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(Error::Failed { program, said });
            }
            if Instant::now() > until {
                return Err(Error::Silent(ANSWERS_WITHIN, error));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The data is worth nothing without the instance, so it need not end in order.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of a program; Debian keeps those of PostgreSQL apart, by version.
fn find(program: &'static str, package: &'static str) -> Result<PathBuf, Error> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        path.split(':').chain(["/usr/sbin", "/sbin"]).map(PathBuf::from).collect();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let found = folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or(Error::Missing { program, package })
}

fn run(program: &'static str, command: &mut Command) -> Result<(), Error> {
    let failed = |said: String| Error::Failed { program, said };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(failed(String::from_utf8_lossy(&said).into_owned()))
}
