//! Connections to a database. They are created when needed, kept while idle, and recreated after
//! the database has restarted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postgres::config::Host;
use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Address};
use punctual_store::StoreError;

/// Maximum number of idle connections.
const IDLE: usize = 16;
/// Time limit for making a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection counts as dead if the machine of the database has not responded for this long.
const SILENCE: Duration = Duration::from_secs(30);
/// Settings of each connection. They override weaker settings of the database, so that an
/// acknowledged delivery survives a power cut.
const SETTINGS: &str = "SET statement_timeout = '60s'; SET lock_timeout = '20s'; \
    SET client_min_messages = warning; \
    SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/// Parameters of a statement.
pub(super) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection with its prepared statements.
pub(super) struct Link {
    client: Client,
    prepared: HashMap<String, Statement>,
}

impl Link {
    fn statement(&mut self, sql: &str) -> Result<Statement, postgres::Error> {
        if let Some(known) = self.prepared.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(super) fn rows(
        &mut self,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, postgres::Error> {
        let statement = self.statement(sql)?;
        self.client.query(&statement, values)
    }

    pub(super) fn row(
        &mut self,
        sql: &str,
        values: Values<'_>,
    ) -> Result<Option<Row>, postgres::Error> {
        let statement = self.statement(sql)?;
        self.client.query_opt(&statement, values)
    }

    /// Returns the number of changed rows.
    pub(super) fn run(&mut self, sql: &str, values: Values<'_>) -> Result<u64, postgres::Error> {
        let statement = self.statement(sql)?;
        self.client.execute(&statement, values)
    }

    /// Runs several statements at once, without parameters.
    pub(super) fn batch(&mut self, sql: &str) -> Result<(), postgres::Error> {
        self.client.batch_execute(sql)
    }

    /// Runs `work` in a transaction.
    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, postgres::Error>,
    ) -> Result<T, postgres::Error> {
        self.batch("BEGIN")?;
        match work(self) {
            Ok(done) => self.batch("COMMIT").map(|()| done),
            Err(error) => {
                // The first error is reported; a broken connection is rolled back by the server.
                let _ = self.batch("ROLLBACK");
                Err(error)
            }
        }
    }
}

/// Address of the database, and connections to it.
pub(super) struct Pool {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    name: String,
    idle: Mutex<Vec<Link>>,
}

impl Pool {
    /// Prepares connections to the database at `url`, but does not connect yet.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let unusable = |reason: String| StoreError::Database {
            name: "of --store".to_owned(),
            // The URL may contain a password, so it is not repeated.
            reason,
        };
        let address = Address::from_url(url).map_err(|error| unusable(error.to_string()))?;
        let config = address.config();
        let mut config = config.map_err(|error| unusable(described(&error)))?;
        config
            .connect_timeout(CONNECT)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE);
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        let tls = tls::connector(&config, address.roots.as_deref());
        let tls = tls.map_err(|error| unusable(error.to_string()))?;
        Ok(Self {
            name: name_of(&config),
            config,
            tls,
            idle: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn connect(&self) -> Result<Link, postgres::Error> {
        let mut client = match &self.tls {
            Some(tls) => self.config.connect(tls.clone())?,
            None => self.config.connect(NoTls)?,
        };
        client.batch_execute(SETTINGS)?;
        Ok(Link {
            client,
            prepared: HashMap::new(),
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a connection. If an idle connection is found dead (the database was
    /// restarted), `work` runs again on a new one. Therefore `work` must be idempotent, as all
    /// statements of this backend are.
    pub(super) fn with_link<T>(
        &self,
        work: impl Fn(&mut Link) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        let on = |error: postgres::Error| self.on(&error);
        let idle = self.idle().pop();
        if let Some(mut link) = idle {
            match work(&mut link) {
                Err(_) if link.client.is_closed() => self.idle().clear(),
                result => {
                    self.put_back(link);
                    return result.map_err(on);
                }
            }
        }
        let mut link = self.connect().map_err(on)?;
        let result = work(&mut link).map_err(on);
        if !link.client.is_closed() {
            self.put_back(link);
        }
        result
    }

    fn put_back(&self, link: Link) {
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(link);
        }
    }

    /// Returns the typed error.
    pub(super) fn on(&self, error: &postgres::Error) -> StoreError {
        use postgres::error::SqlState;
        let path = || self.name.clone().into();
        match error.code() {
            Some(code) if *code == SqlState::DISK_FULL => StoreError::DiskFull { path: path() },
            Some(code)
                if [
                    SqlState::LOCK_NOT_AVAILABLE,
                    SqlState::T_R_DEADLOCK_DETECTED,
                    SqlState::T_R_SERIALIZATION_FAILURE,
                ]
                .contains(code) =>
            {
                StoreError::Locked {
                    path: path(),
                    waited_s: 20,
                }
            }
            _ => self.failed(described(error)),
        }
    }

    pub(super) fn failed(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Database {
            name: self.name.clone(),
            reason: reason.into(),
        }
    }
}

/// Formats an error with its causes in one line.
fn described(error: &postgres::Error) -> String {
    let mut text = match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    };
    let mut cause = std::error::Error::source(error).filter(|_| error.as_db_error().is_none());
    while let Some(one) = cause {
        text.push_str(": ");
        text.push_str(&one.to_string());
        cause = one.source();
    }
    let advice = if text.contains("invalid peer certificate") {
        tls::UNTRUSTED
    } else if text.contains("server does not support TLS") {
        tls::NOT_OFFERED
    } else {
        ""
    };
    text + advice
}

/// Returns the name of the database, without user and password.
fn name_of(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    format!(
        "postgres://{}/{}",
        hosts.join(","),
        config.get_dbname().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_no_password() {
        let pool = Pool::new("postgres://me:secret@db.example:5433/fleet").unwrap();
        assert_eq!(pool.name(), "postgres://db.example/fleet");
        let error = Pool::new("postgres://me:secret@db.example:x/fleet")
            .err()
            .unwrap();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
