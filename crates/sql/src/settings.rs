//! The settings of a connection: SET, SHOW, RESET, and what the protocol reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{SqlError, SqlResult};
use crate::setting_time::{read_time, write_time};
use crate::sqlstate;
use crate::types::TimeZone;

/// A setting.
struct Setting {
    name: &'static str,
    /// How the protocol and SHOW write the name.
    shown: &'static str,
    default: &'static str,
    kind: Kind,
    /// Whether the protocol reports it.
    is_reported: bool,
}

enum Kind {
    /// It cannot be changed.
    Fixed,
    /// Any text.
    Text,
    /// One of these, in any case; the first one is what it always means.
    OneOf(&'static [&'static str]),
    /// A time zone.
    TimeZone,
    /// A time, in milliseconds unless it has a unit; zero: no limit.
    Time,
    /// The same, without effect here.
    IgnoredTime,
    /// Accepted, and without effect here.
    Ignored,
}

const fn setting(
    name: &'static str,
    shown: &'static str,
    default: &'static str,
    kind: Kind,
    is_reported: bool,
) -> Setting {
    Setting {
        name,
        shown,
        default,
        kind,
        is_reported,
    }
}

/// Longest value of a setting that is a name: it is cut.
const NAME_BYTES_MAX: usize = 63;
/// Bytes of the names and values that a session has set.
const BYTES_MAX: usize = 64 << 10;

static SETTINGS: &[Setting] = &[
    setting(
        "server_version",
        "server_version",
        "15.0",
        Kind::Fixed,
        true,
    ),
    setting(
        "server_version_num",
        "server_version_num",
        "150000",
        Kind::Fixed,
        false,
    ),
    setting(
        "server_encoding",
        "server_encoding",
        "UTF8",
        Kind::Fixed,
        true,
    ),
    setting(
        "client_encoding",
        "client_encoding",
        "UTF8",
        Kind::OneOf(&["UTF8", "UTF-8", "UNICODE"]),
        true,
    ),
    setting("application_name", "application_name", "", Kind::Text, true),
    setting("is_superuser", "is_superuser", "on", Kind::Fixed, true),
    setting(
        "session_authorization",
        "session_authorization",
        "",
        Kind::Fixed,
        true,
    ),
    setting(
        "datestyle",
        "DateStyle",
        "ISO, MDY",
        Kind::OneOf(&[
            "ISO, MDY", "ISO", "ISO, DMY", "ISO, YMD", "ISO,MDY", "ISO,DMY", "ISO,YMD",
        ]),
        true,
    ),
    setting(
        "intervalstyle",
        "IntervalStyle",
        "postgres",
        Kind::OneOf(&["postgres"]),
        true,
    ),
    setting("timezone", "TimeZone", "UTC", Kind::TimeZone, true),
    setting(
        "integer_datetimes",
        "integer_datetimes",
        "on",
        Kind::Fixed,
        true,
    ),
    setting(
        "standard_conforming_strings",
        "standard_conforming_strings",
        "on",
        Kind::OneOf(&["on", "true", "1", "yes"]),
        true,
    ),
    setting("in_hot_standby", "in_hot_standby", "off", Kind::Fixed, true),
    setting(
        "default_transaction_read_only",
        "default_transaction_read_only",
        "off",
        Kind::OneOf(&["off", "false", "0", "no"]),
        true,
    ),
    setting(
        "transaction_isolation",
        "transaction_isolation",
        "serializable",
        Kind::OneOf(&[
            "serializable",
            "repeatable read",
            "read committed",
            "read uncommitted",
        ]),
        false,
    ),
    setting(
        "default_transaction_isolation",
        "default_transaction_isolation",
        "serializable",
        Kind::OneOf(&[
            "serializable",
            "repeatable read",
            "read committed",
            "read uncommitted",
        ]),
        false,
    ),
    setting(
        "transaction_read_only",
        "transaction_read_only",
        "off",
        Kind::OneOf(&["off", "false"]),
        false,
    ),
    setting(
        "search_path",
        "search_path",
        "\"$user\", public",
        Kind::Ignored,
        false,
    ),
    setting(
        "bytea_output",
        "bytea_output",
        "hex",
        Kind::OneOf(&["hex"]),
        false,
    ),
    setting(
        "extra_float_digits",
        "extra_float_digits",
        "1",
        Kind::Ignored,
        false,
    ),
    setting(
        "statement_timeout",
        "statement_timeout",
        "0",
        Kind::Time,
        false,
    ),
    // Locks of rows are waited for by the second at most, and decide on nothing.
    setting(
        "lock_timeout",
        "lock_timeout",
        "0",
        Kind::IgnoredTime,
        false,
    ),
    setting(
        "idle_in_transaction_session_timeout",
        "idle_in_transaction_session_timeout",
        "0",
        Kind::Time,
        false,
    ),
    setting(
        "client_min_messages",
        "client_min_messages",
        "notice",
        Kind::Ignored,
        false,
    ),
    setting("work_mem", "work_mem", "4MB", Kind::Ignored, false),
    setting(
        "maintenance_work_mem",
        "maintenance_work_mem",
        "64MB",
        Kind::Ignored,
        false,
    ),
    setting(
        "synchronous_commit",
        "synchronous_commit",
        "on",
        Kind::OneOf(&["on"]),
        false,
    ),
    setting("row_security", "row_security", "on", Kind::Ignored, false),
    setting(
        "max_identifier_length",
        "max_identifier_length",
        "63",
        Kind::Fixed,
        false,
    ),
    setting(
        "default_tablespace",
        "default_tablespace",
        "",
        Kind::Ignored,
        false,
    ),
    setting(
        "default_table_access_method",
        "default_table_access_method",
        "heap",
        Kind::Ignored,
        false,
    ),
    setting(
        "check_function_bodies",
        "check_function_bodies",
        "on",
        Kind::Ignored,
        false,
    ),
    setting("xmloption", "xmloption", "content", Kind::Ignored, false),
];

fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS
        .iter()
        .find(|setting| setting.name.eq_ignore_ascii_case(name))
}

/// The default of a setting.
pub(crate) fn default_setting(name: &str) -> Option<String> {
    find(name).map(|setting| setting.default.to_owned())
}

/// All settings and their defaults.
pub(crate) fn default_settings() -> Vec<(&'static str, &'static str)> {
    SETTINGS
        .iter()
        .map(|setting| (setting.shown, setting.default))
        .collect()
}

/// Values by name. A transaction shares those from before its beginning until one is set.
type Values = BTreeMap<String, String>;

/// The values of one connection.
pub(crate) struct Settings {
    values: Arc<Values>,
    /// What RESET goes back to.
    startup: Arc<Values>,
    zone: TimeZone,
    statement_timeout: Option<Duration>,
    idle_in_transaction_timeout: Option<Duration>,
    changed: Vec<&'static str>,
    /// The values when the transaction began; restored if it is rolled back.
    before: Option<Arc<Values>>,
    /// What SET LOCAL has replaced: restored at the end.
    local: Vec<(String, Option<String>)>,
}

impl Settings {
    pub(crate) fn new(user: &str) -> Self {
        let mut values = Values::new();
        values.insert("session_authorization".to_owned(), user.to_owned());
        let values = Arc::new(values);
        Self {
            startup: Arc::clone(&values),
            values,
            zone: TimeZone::Utc,
            statement_timeout: None,
            idle_in_transaction_timeout: None,
            changed: Vec::new(),
            before: None,
            local: Vec::new(),
        }
    }

    /// The time zone.
    pub(crate) fn zone(&self) -> TimeZone {
        self.zone
    }

    /// The longest time that a statement may take; `None`: any.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.statement_timeout
    }

    /// The longest time between two statements of a transaction block; `None`: any.
    pub(crate) fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.idle_in_transaction_timeout
    }

    pub(crate) fn set_startup(&mut self, name: &str, value: &str) -> SqlResult<()> {
        if name.eq_ignore_ascii_case("options") {
            // `-c name=value`, any number of times.
            for word in value.split_whitespace() {
                let word = word
                    .strip_prefix("-c")
                    .unwrap_or(word)
                    .trim_start_matches("--");
                if let Some((name, value)) = word.split_once('=') {
                    self.set_startup(name, value)?;
                }
            }
            return Ok(());
        }
        // Names that are no settings: the server's own.
        if !["user", "database", "replication"].contains(&name) {
            self.set(name, Some(value))?;
        }
        self.startup = Arc::clone(&self.values);
        self.changed.clear();
        Ok(())
    }

    /// Sets a value, or, with `None`, what it was at the start.
    ///
    /// # Errors
    /// 42704 for a name that there is not; 22023 for a value that it cannot have; 55P02 if it is fixed.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> SqlResult<()> {
        let name = name.to_ascii_lowercase();
        let Some(setting) = find(&name) else {
            // Settings of extensions have a point in their names, and are only remembered.
            if !name.contains('.') {
                return Err(unknown(&name));
            }
            match value {
                Some(value) => {
                    self.check_length(&name, value)?;
                    Arc::make_mut(&mut self.values).insert(name, value.to_owned())
                }
                None => Arc::make_mut(&mut self.values).remove(&name),
            };
            return Ok(());
        };
        let value = match (value, &setting.kind) {
            (None, _) => self.startup.get(&name).cloned(),
            (Some(_), Kind::Fixed) => {
                return Err(SqlError::new(
                    "55P02",
                    format!("parameter \"{}\" cannot be changed", setting.shown),
                ));
            }
            (Some(value), Kind::Text) => {
                // As PostgreSQL does.
                Some(value[..value.floor_char_boundary(NAME_BYTES_MAX)].to_owned())
            }
            (Some(value), Kind::Ignored) => {
                self.check_length(&name, value)?;
                Some(value.to_owned())
            }
            (Some(value), Kind::OneOf(choices)) => {
                let known = choices.iter().any(|it| it.eq_ignore_ascii_case(value));
                if !known {
                    return Err(invalid(setting, value)
                        .with_hint(format!("It is always \"{}\" here.", choices[0])));
                }
                // Every choice means the first one.
                Some(choices[0].to_owned())
            }
            (Some(value), Kind::Time | Kind::IgnoredTime) => {
                let time = read_time(value).map_err(|why| match why {
                    None => invalid(setting, value),
                    Some(hint) => invalid(setting, value).with_hint(hint),
                })?;
                Some(write_time(time))
            }
            (Some(value), Kind::TimeZone) => {
                let zone = TimeZone::parse(value).ok_or_else(|| invalid(setting, value))?;
                Some(zone.name())
            }
        };
        match value {
            Some(value) => Arc::make_mut(&mut self.values).insert(name, value),
            None => Arc::make_mut(&mut self.values).remove(&name),
        };
        self.note(setting);
        Ok(())
    }

    /// All values together have a limit.
    fn check_length(&self, name: &str, value: &str) -> SqlResult<()> {
        let others = self.values.iter().filter(|(other, _)| *other != name);
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if bytes + name.len() + value.len() <= BYTES_MAX {
            return Ok(());
        }
        Err(SqlError::new(
            sqlstate::PROGRAM_LIMIT_EXCEEDED,
            format!("the settings of a session have at most {BYTES_MAX} bytes"),
        ))
    }

    /// Whether a value was set that has no effect here.
    pub(crate) fn is_without_effect(&self, name: &str) -> bool {
        find(name).is_some_and(|setting| {
            matches!(setting.kind, Kind::Ignored | Kind::IgnoredTime)
                && self.value(setting) != setting.default
        })
    }

    fn note(&mut self, setting: &'static Setting) {
        if matches!(setting.kind, Kind::TimeZone) {
            self.zone = TimeZone::parse(&self.value(setting)).unwrap_or(TimeZone::Utc);
        }
        if matches!(setting.kind, Kind::Time) {
            let time = read_time(&self.value(setting)).unwrap_or_default();
            let longest = (!time.is_zero()).then_some(time);
            match setting.name {
                "statement_timeout" => self.statement_timeout = longest,
                _ => self.idle_in_transaction_timeout = longest,
            }
        }
        if setting.is_reported && !self.changed.contains(&setting.name) {
            self.changed.push(setting.name);
        }
    }

    /// SET LOCAL: until the transaction ends.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) fn set_local(&mut self, name: &str, value: Option<&str>) -> SqlResult<()> {
        let name = name.to_ascii_lowercase();
        let before = self.values.get(&name).cloned();
        self.set(&name, value)?;
        // The first value is the one that is restored.
        if !self.local.iter().any(|(local, _)| *local == name) {
            self.local.push((name, before));
        }
        Ok(())
    }

    /// All settings go back to what they were at the start.
    pub(crate) fn reset_all(&mut self) {
        self.replace(Arc::clone(&self.startup));
    }

    fn replace(&mut self, values: Arc<Values>) {
        let before = std::mem::replace(&mut self.values, values);
        for setting in SETTINGS {
            if before.get(setting.name) != self.values.get(setting.name) {
                self.note(setting);
            }
        }
    }

    /// A transaction begins.
    pub(crate) fn begin(&mut self) {
        self.before = Some(Arc::clone(&self.values));
        self.local.clear();
    }

    /// The transaction has ended.
    pub(crate) fn end(&mut self, committed: bool) {
        let before = self.before.take();
        let local = std::mem::take(&mut self.local);
        match before {
            Some(before) if !committed => self.replace(before),
            _ => {
                for (name, value) in local.into_iter().rev() {
                    match value {
                        Some(value) => Arc::make_mut(&mut self.values).insert(name.clone(), value),
                        None => Arc::make_mut(&mut self.values).remove(&name),
                    };
                    if let Some(setting) = find(&name) {
                        self.note(setting);
                    }
                }
            }
        }
    }

    fn value(&self, setting: &Setting) -> String {
        self.values
            .get(setting.name)
            .cloned()
            .unwrap_or_else(|| setting.default.to_owned())
    }

    /// The name as it is shown, and the value.
    ///
    /// # Errors
    /// 42704 for a name that there is not.
    pub(crate) fn show(&self, name: &str) -> SqlResult<(String, String)> {
        let name = name.to_ascii_lowercase();
        match find(&name) {
            Some(setting) => Ok((setting.shown.to_owned(), self.value(setting))),
            None => match self.values.get(&name) {
                Some(value) => Ok((name, value.clone())),
                None => Err(unknown(&name)),
            },
        }
    }

    /// All names and values.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        SETTINGS
            .iter()
            .map(|setting| (setting.shown.to_owned(), self.value(setting)))
            .collect()
    }

    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = SETTINGS.iter().filter(|setting| setting.is_reported);
        reported
            .map(|setting| (setting.shown, self.value(setting)))
            .collect()
    }

    pub(crate) fn take_changed(&mut self) -> Vec<(&'static str, String)> {
        let changed = std::mem::take(&mut self.changed);
        let settings = changed.iter().filter_map(|name| find(name));
        settings
            .map(|setting| (setting.shown, self.value(setting)))
            .collect()
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(
        sqlstate::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

fn invalid(setting: &Setting, value: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!(
            "invalid value for parameter \"{}\": \"{value}\"",
            setting.shown
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_shown_and_reported() {
        let mut settings = Settings::new("me");
        settings.set("TimeZone", Some("Europe/Berlin")).unwrap();
        settings.set("application_name", Some("a")).unwrap();
        assert_eq!(settings.show("timezone").unwrap().1, "Europe/Berlin");
        let changed: Vec<_> = settings.take_changed().into_iter().map(|it| it.0).collect();
        assert_eq!(changed, ["TimeZone", "application_name"]);
        assert!(settings.set("server_version", Some("1")).is_err());
        assert!(settings.set("client_encoding", Some("LATIN1")).is_err());
        assert!(settings.set("nothing", Some("1")).is_err());
        settings
            .set("transaction_isolation", Some("read committed"))
            .unwrap();
        assert_eq!(
            settings.show("transaction_isolation").unwrap().1,
            "serializable"
        );
    }

    #[test]
    fn long_values_are_cut_or_refused() {
        let mut settings = Settings::new("me");
        let long = "ä".repeat(20_000);
        settings.set("application_name", Some(&long)).unwrap();
        assert_eq!(settings.show("application_name").unwrap().1, "ä".repeat(31));
        settings.set("a.b", Some(&long)).unwrap();
        settings.set("a.b", Some(&long)).unwrap();
        for name in ["a.c", "search_path"] {
            let error = settings.set(name, Some(&long)).unwrap_err();
            assert_eq!(error.sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
        }
        settings.begin();
        for number in 0..3 {
            let value = number.to_string();
            settings.set_local("a.d", Some(&value)).unwrap();
        }
        assert_eq!(settings.local.len(), 1);
        settings.end(true);
        assert!(settings.show("a.d").is_err());
    }

    #[test]
    fn time_limits_are_set_and_restored() {
        let mut settings = Settings::new("me");
        assert_eq!(settings.statement_timeout(), None);
        settings.set("statement_timeout", Some("1500")).unwrap();
        assert_eq!(
            settings.statement_timeout(),
            Some(Duration::from_millis(1500))
        );
        settings.begin();
        settings
            .set_local("statement_timeout", Some("2min"))
            .unwrap();
        assert_eq!(settings.show("statement_timeout").unwrap().1, "2min");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(120)));
        settings.end(true);
        assert_eq!(settings.show("statement_timeout").unwrap().1, "1500ms");
        settings.set("statement_timeout", None).unwrap();
        assert_eq!(settings.statement_timeout(), None);
        let error = settings.set("lock_timeout", Some("5 parsecs")).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate::INVALID_PARAMETER_VALUE);
        settings.set("lock_timeout", Some("5s")).unwrap();
        assert!(settings.is_without_effect("lock_timeout"));
        assert!(!settings.is_without_effect("statement_timeout"));
    }

    #[test]
    fn a_rollback_restores_settings() {
        let mut settings = Settings::new("me");
        settings.begin();
        settings.set("application_name", Some("a")).unwrap();
        settings.end(false);
        assert_eq!(settings.show("application_name").unwrap().1, "");
        settings.begin();
        settings.set_local("application_name", Some("b")).unwrap();
        settings.set("timezone", Some("+01")).unwrap();
        settings.end(true);
        assert_eq!(settings.show("application_name").unwrap().1, "");
        assert_eq!(settings.show("timezone").unwrap().1, "+01");
    }
}
