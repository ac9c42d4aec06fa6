//! A private instance of MariaDB or PostgreSQL, with its own folder and port.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fabricmark_plan::Engine;
use fabricmark_record::ApplicationTier;

use super::{Database, Url};
use crate::program::{Error, Owner, find, hand_over, run, unprivileged};
use crate::service::Service;

/// A running instance. It is killed when this is dropped; its folder stays.
#[derive(Debug)]
pub struct Instance {
    pub service: Service,
    /// Its address on this host.
    pub url: Url,
    /// Program and version.
    pub version: String,
    program: &'static str,
    log: PathBuf,
}

/// How long an instance may take to answer: an estimate for a slow disk (it takes below 1 s here).
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// The database of the shop in each engine, and its user.
const USER: &str = "shop";

/// Folders of the server: its files, and its socket and temporary files.
const DATA: &str = "data";
const RUN: &str = "run";

/// Writes a file that only the server reads.
fn secret(path: &Path, text: &str) -> Result<(), Error> {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Error::Folder(path.to_owned(), error))?;
    hand_over(&[path])
}

/// Programs that an instance needs, with their packages in Debian.
pub const fn programs(engine: Engine) -> &'static [(&'static str, &'static str)] {
    match engine {
        // `mariadb-install-db` runs `my_print_defaults`.
        Engine::MariaDb => &[
            ("mariadbd", "mariadb-server-core"),
            ("mariadb-install-db", "mariadb-server-core"),
            ("my_print_defaults", "mariadb-client-core"),
        ],
        Engine::PostgreSql => &[("postgres", "postgresql"), ("initdb", "postgresql")],
    }
}

/// Address of a shop's database. Fails if the password is not one of [`ApplicationTier::check_password`].
pub fn url(engine: Engine, at: SocketAddr, password: &str) -> Result<Url, String> {
    ApplicationTier::check_password(password)?;
    match engine {
        Engine::MariaDb => format!("mariadb://{USER}:{password}@{at}/shop").parse(),
        Engine::PostgreSql => format!("postgresql://{USER}:{password}@{at}/postgres").parse(),
    }
}

impl Instance {
    /// Creates an instance in an empty folder, and starts it at an address, where user `shop` has this password.
    pub async fn start(
        engine: Engine,
        folder: &Path,
        at: SocketAddr,
        password: &str,
    ) -> Result<Self, Error> {
        let wrong = |error| Error::Folder(folder.to_owned(), error);
        fs::create_dir_all(folder).map_err(wrong)?;
        let folder = &folder.canonicalize().map_err(wrong)?;
        if Owner::of_servers() == Owner::Nobody {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(wrong)?;
        }
        // The server owns these two; nothing is written there as the user of this process.
        let own = [DATA, RUN].map(|name| folder.join(name));
        for path in &own {
            fs::DirBuilder::new().mode(0o700).create(path).map_err(wrong)?;
        }
        hand_over(&[&own[0], &own[1]])?;
        let log = fs::File::create(folder.join("log")).map_err(wrong)?;
        let again = log.try_clone().map_err(wrong)?;
        let program = match engine {
            Engine::MariaDb => "mariadbd",
            Engine::PostgreSql => "postgres",
        };
        let failed = |said: String| Error::Failed { program, said };
        let mut server = match engine {
            Engine::MariaDb => mariadb(folder, at, password)?,
            Engine::PostgreSql => postgresql(folder, at, password)?,
        };
        let version = run(program, Command::new(server.get_program()).arg("--version"))?;
        server.stdout(Stdio::from(log)).stderr(Stdio::from(again));
        let service = Service::start(server).map_err(|error| failed(error.to_string()))?;
        let near = match at.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
            ip => ip,
        };
        let url = url(engine, SocketAddr::new(near, at.port()), password).map_err(failed)?;
        let instance = Self {
            service,
            url,
            version: named(engine, &version),
            program,
            log: folder.join("log"),
        };
        instance.open(1, 0).await?;
        Ok(instance)
    }

    /// Connects to the instance as soon as it answers. It may be starting again: for the first time, or after it was killed,
    /// up to `restarts` times.
    pub async fn open(&self, connections: u32, restarts: u32) -> Result<Database, Error> {
        let program = self.program;
        let until = Instant::now() + ANSWERS_WITHIN;
        loop {
            let error = match Database::open(&self.url, connections).await {
                Ok(database) => return Ok(database),
                Err(error) => error,
            };
            if self.service.counters().1 > restarts {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(Error::Failed { program, said });
            }
            if Instant::now() > until {
                let error = error.to_string();
                return Err(Error::Silent { program, within: ANSWERS_WITHIN, error });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Name and version, from what `--version` prints: `mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for ...` or
/// `postgres (PostgreSQL) 15.14 (Debian ...)`.
fn named(engine: Engine, printed: &str) -> String {
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = printed.split_whitespace().find(is_version).unwrap_or("of unknown version");
    let (version, _) = version.split_once('-').unwrap_or((version, ""));
    let name = match engine {
        Engine::MariaDb => "MariaDB",
        Engine::PostgreSql => "PostgreSQL",
    };
    format!("{name} {version}")
}

fn mariadb(folder: &Path, at: SocketAddr, password: &str) -> Result<Command, Error> {
    let [data, own] = [DATA, RUN].map(|name| folder.join(name));
    let install = find("mariadb-install-db", "mariadb-server-core")?;
    let mut create = unprivileged(&install, folder);
    create.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    create.args(["--auth-root-authentication-method=socket", "--skip-test-db"]);
    create.arg(format!("--tmpdir={}", own.display()));
    run("mariadb-install-db", &mut create)?;
    let first = folder.join("first.sql");
    let statements = format!(
        "DROP USER IF EXISTS ''@'localhost';\nCREATE DATABASE IF NOT EXISTS shop;\n\
         CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{password}';\n\
         GRANT ALL ON shop.* TO {USER}@'%';\n"
    );
    secret(&first, &statements)?;
    let mut server = unprivileged(&find("mariadbd", "mariadb-server-core")?, folder);
    server.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    server.arg(format!("--tmpdir={}", own.display()));
    server.arg(format!("--socket={}", own.join("socket").display()));
    server.arg(format!("--init-file={}", first.display()));
    // 0.0.0.0 would be IPv4 alone.
    let address = if at.ip().is_unspecified() { "*".to_owned() } else { at.ip().to_string() };
    server.arg(format!("--port={}", at.port())).arg(format!("--bind-address={address}"));
    server.args(["--skip-name-resolve", "--skip-log-bin"]);
    server.args(["--innodb-buffer-pool-size=512M", "--innodb-log-file-size=256M"]);
    // As PostgreSQL's default. With REPEATABLE READ, locks on gaps between the rows of carts let customers wait for each
    // other in a circle.
    server.args(["--transaction-isolation=READ-COMMITTED", "--max-connections=1100"]);
    Ok(server)
}

fn postgresql(folder: &Path, at: SocketAddr, password: &str) -> Result<Command, Error> {
    let [data, own] = [DATA, RUN].map(|name| folder.join(name));
    let wrong = |error| Error::Folder(folder.to_owned(), error);
    let mut create = unprivileged(&find("initdb", "postgresql")?, folder);
    // Nobody can sign in as the superuser, who could start programs (COPY ... TO PROGRAM).
    create.args(["--auth=reject", "--username=postgres", "--encoding=UTF8"]);
    create.arg("--pgdata").arg(&data);
    run("initdb", &mut create)?;
    let first = folder.join("first.sql");
    secret(
        &first,
        &format!(
            "CREATE ROLE {USER} LOGIN PASSWORD '{password}'\nALTER DATABASE postgres OWNER TO {USER}\n"
        ),
    )?;
    let postgres = find("postgres", "postgresql")?;
    let mut single = unprivileged(&postgres, folder);
    single.arg("--single").arg("-D").arg(&data).arg("postgres");
    single.stdin(Stdio::from(fs::File::open(&first).map_err(wrong)?));
    run("postgres --single", &mut single)?;
    let rules = folder.join("hba.conf");
    let networks = ["0.0.0.0/0", "::/0"];
    let lines = networks.map(|network| format!("host postgres {USER} {network} scram-sha-256\n"));
    secret(&rules, &lines.concat())?;
    let mut server = unprivileged(&postgres, folder);
    server.arg("-D").arg(&data).arg("-k").arg(&own).args(["-p", &at.port().to_string()]);
    server.arg("-c").arg(format!("hba_file={}", rules.display()));
    let listen = match at.ip() {
        ip if ip.is_unspecified() => "*".to_owned(),
        ip => ip.to_string(),
    };
    let settings = [
        &format!("listen_addresses={listen}"),
        "shared_buffers=512MB",
        "max_wal_size=4GB",
        "max_connections=1100",
    ];
    settings.into_iter().for_each(|setting| {
        server.args(["-c", setting]);
    });
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_names_no_other_server() {
        let at = "192.0.2.1:3306".parse().unwrap();
        for engine in [Engine::MariaDb, Engine::PostgreSql] {
            assert!(url(engine, at, "Ab1").is_ok());
            let error = url(engine, at, "x@192.0.2.2:3306/shop?ssl-ca=/x&a=").unwrap_err();
            assert_eq!(error, "a password has letters and digits only");
        }
    }

    #[test]
    fn a_version_is_the_first_number_that_is_printed() {
        let mariadb = "mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64";
        assert_eq!(named(Engine::MariaDb, mariadb), "MariaDB 10.11.14");
        let postgresql = "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)";
        assert_eq!(named(Engine::PostgreSql, postgresql), "PostgreSQL 15.14");
    }
}
