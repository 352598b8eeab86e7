//! Commands that need no planner: transactions, settings, VACUUM and the like.

use super::copy::{CopyCommand, parse_copy};
use super::token_reader::TokenReader;
use crate::error::{SqlError, SqlResult};

/// A command without a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Utility {
    /// BEGIN or START TRANSACTION; the command's tag, and whether it is read only.
    Begin { tag: &'static str, read_only: bool },
    /// COMMIT or END.
    Commit,
    /// ROLLBACK or ABORT.
    Rollback,
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// SET; `local`: until the transaction ends.
    Set {
        name: String,
        value: SetValue,
        local: bool,
    },
    /// SET TRANSACTION or SET SESSION CHARACTERISTICS: every level is serializable.
    SetTransaction { read_only: Option<bool> },
    /// SHOW, of one setting or all.
    Show(Option<String>),
    /// RESET ALL.
    ResetAll,
    /// DISCARD ALL and its like.
    Discard(&'static str),
    /// DEALLOCATE, of one statement or all.
    Deallocate(Option<String>),
    /// VACUUM: the engine does this by itself.
    Vacuum,
    /// ANALYZE.
    Analyze,
    /// CHECKPOINT.
    Checkpoint,
    /// LOCK TABLE: serializable transactions need none.
    Lock,
    /// COPY.
    Copy(Box<CopyCommand>),
}

/// The value of SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetValue {
    /// DEFAULT.
    Default,
    /// A value, or several with commas between.
    Text(String),
}

/// The command, if the statement is one that needs no planner.
///
/// # Errors
/// 42601 if it begins like one and is none.
pub(crate) fn parse_utility(text: &str) -> SqlResult<Option<Utility>> {
    let mut reader = TokenReader::new(text)?;
    let words = [
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
        "set",
        "show",
        "reset",
        "discard",
        "deallocate",
        "vacuum",
        "analyze",
        "checkpoint",
        "lock",
        "copy",
        "prepare",
        "execute",
        "declare",
        "fetch",
        "listen",
        "unlisten",
        "notify",
        "cluster",
        "reindex",
        "grant",
        "revoke",
        "comment",
        "do",
        "call",
    ];
    let Some(word) = reader.takes_one(&words) else {
        return Ok(None);
    };
    let command = match word {
        "begin" | "start" => begin(&mut reader, word)?,
        "commit" | "end" => {
            skip_work(&mut reader);
            if reader.takes("prepared") {
                return Err(SqlError::unsupported("two-phase commit"));
            }
            no_chain(&mut reader)?;
            Utility::Commit
        }
        "rollback" | "abort" => {
            skip_work(&mut reader);
            if reader.takes("to") {
                reader.takes("savepoint");
                Utility::RollbackTo(reader.name()?)
            } else {
                no_chain(&mut reader)?;
                Utility::Rollback
            }
        }
        "savepoint" => Utility::Savepoint(reader.name()?),
        "release" => {
            reader.takes("savepoint");
            Utility::Release(reader.name()?)
        }
        "set" => set(&mut reader)?,
        "show" => show(&mut reader)?,
        "reset" => {
            if reader.takes("all") {
                Utility::ResetAll
            } else {
                let (name, local) = (setting_name(&mut reader)?, false);
                let value = SetValue::Default;
                Utility::Set { name, value, local }
            }
        }
        "discard" => match reader.takes_one(&["all", "plans", "sequences", "temp", "temporary"]) {
            Some("all") => Utility::Discard("DISCARD ALL"),
            Some("plans") => Utility::Discard("DISCARD PLANS"),
            Some("sequences") => Utility::Discard("DISCARD SEQUENCES"),
            Some(_) => Utility::Discard("DISCARD TEMP"),
            None => return Err(reader.unexpected()),
        },
        "deallocate" => {
            reader.takes("prepare");
            if reader.takes("all") {
                Utility::Deallocate(None)
            } else {
                Utility::Deallocate(Some(reader.name()?))
            }
        }
        "vacuum" => return Ok(Some(Utility::Vacuum)),
        "analyze" => return Ok(Some(Utility::Analyze)),
        "checkpoint" => Utility::Checkpoint,
        "lock" => return Ok(Some(Utility::Lock)),
        "copy" => Utility::Copy(Box::new(parse_copy(&mut reader)?)),
        other => return Err(SqlError::unsupported(other.to_ascii_uppercase())),
    };
    reader.end()?;
    Ok(Some(command))
}

fn skip_work(reader: &mut TokenReader<'_>) {
    reader.takes_one(&["work", "transaction"]);
}

fn no_chain(reader: &mut TokenReader<'_>) -> SqlResult<()> {
    if !reader.takes("and") {
        return Ok(());
    }
    if reader.takes("no") {
        return if reader.takes("chain") {
            Ok(())
        } else {
            Err(reader.unexpected())
        };
    }
    Err(SqlError::unsupported("AND CHAIN"))
}

fn begin(reader: &mut TokenReader<'_>, word: &str) -> SqlResult<Utility> {
    let tag = if word == "start" {
        if !reader.takes("transaction") {
            return Err(reader.unexpected());
        }
        "START TRANSACTION"
    } else {
        skip_work(reader);
        "BEGIN"
    };
    let read_only = modes(reader)?.unwrap_or(false);
    Ok(Utility::Begin { tag, read_only })
}

/// `ISOLATION LEVEL …, READ ONLY, NOT DEFERRABLE`: every level is serializable. Returns whether READ ONLY or READ WRITE was
/// there.
fn modes(reader: &mut TokenReader<'_>) -> SqlResult<Option<bool>> {
    let mut read_only = None;
    while !reader.is_at_end() {
        if reader.takes("isolation") {
            let level = reader.takes("level")
                && match reader.takes_one(&["serializable", "repeatable", "read"]) {
                    Some("serializable") => true,
                    Some("repeatable") => reader.takes("read"),
                    Some(_) => reader.takes_one(&["committed", "uncommitted"]).is_some(),
                    None => false,
                };
            if !level {
                return Err(reader.unexpected());
            }
        } else if reader.takes("read") {
            read_only = match reader.takes_one(&["only", "write"]) {
                Some("only") => Some(true),
                Some(_) => Some(false),
                None => return Err(reader.unexpected()),
            };
        } else if reader.takes("not") || reader.takes("deferrable") {
            reader.takes("deferrable");
        } else {
            return Err(reader.unexpected());
        }
        reader.takes_symbol(",");
    }
    Ok(read_only)
}

/// A setting's name: words with points between.
fn setting_name(reader: &mut TokenReader<'_>) -> SqlResult<String> {
    let mut name = reader.name()?;
    while reader.takes_symbol(".") {
        name.push('.');
        name.push_str(&reader.name()?);
    }
    Ok(name)
}

fn set(reader: &mut TokenReader<'_>) -> SqlResult<Utility> {
    let local = match reader.takes_one(&["session", "local"]) {
        Some("session") if reader.takes("characteristics") => {
            if !(reader.takes("as") && reader.takes("transaction")) {
                return Err(reader.unexpected());
            }
            let read_only = modes(reader)?;
            return Ok(Utility::SetTransaction { read_only });
        }
        Some("session") if reader.takes("authorization") => {
            return Err(SqlError::unsupported("SET SESSION AUTHORIZATION"));
        }
        word => word == Some("local"),
    };
    if reader.takes("transaction") {
        let read_only = modes(reader)?;
        return Ok(Utility::SetTransaction { read_only });
    }
    if reader.takes("time") {
        if !reader.takes("zone") {
            return Err(reader.unexpected());
        }
        let name = "timezone".to_owned();
        let value = value_list(reader)?;
        return Ok(Utility::Set { name, value, local });
    }
    if reader.takes("names") {
        let name = "client_encoding".to_owned();
        let value = value_list(reader)?;
        return Ok(Utility::Set { name, value, local });
    }
    let name = setting_name(reader)?;
    if !reader.takes_symbol("=") && !reader.takes("to") {
        return Err(reader.unexpected());
    }
    let value = value_list(reader)?;
    Ok(Utility::Set { name, value, local })
}

fn value_list(reader: &mut TokenReader<'_>) -> SqlResult<SetValue> {
    if reader.takes("default") {
        return Ok(SetValue::Default);
    }
    let mut value = reader.value()?;
    while reader.takes_symbol(",") {
        value.push_str(", ");
        value.push_str(&reader.value()?);
    }
    Ok(SetValue::Text(value))
}

fn show(reader: &mut TokenReader<'_>) -> SqlResult<Utility> {
    if reader.takes("all") {
        return Ok(Utility::Show(None));
    }
    let name = if reader.takes("transaction") {
        if !(reader.takes("isolation") && reader.takes("level")) {
            return Err(reader.unexpected());
        }
        "transaction_isolation".to_owned()
    } else if reader.takes("time") {
        if !reader.takes("zone") {
            return Err(reader.unexpected());
        }
        "timezone".to_owned()
    } else {
        setting_name(reader)?
    };
    Ok(Utility::Show(Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Utility {
        parse_utility(text).unwrap().unwrap()
    }

    #[test]
    fn transactions_have_many_spellings() {
        let begin = |tag, read_only| Utility::Begin { tag, read_only };
        assert_eq!(parsed("begin work"), begin("BEGIN", false));
        assert_eq!(
            parsed("START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"),
            begin("START TRANSACTION", true)
        );
        assert_eq!(parsed("END"), Utility::Commit);
        assert_eq!(
            parsed("rollback to savepoint \"A\""),
            Utility::RollbackTo("A".to_owned())
        );
        assert!(parse_utility("begin; x").is_err());
        assert_eq!(parse_utility("SELECT 1").unwrap(), None);
    }

    #[test]
    fn settings_are_set_to_texts() {
        let set = |name: &str, value: &str| Utility::Set {
            name: name.to_owned(),
            value: SetValue::Text(value.to_owned()),
            local: false,
        };
        assert_eq!(
            parsed("SET DateStyle TO ISO, MDY"),
            set("datestyle", "iso, mdy")
        );
        assert_eq!(parsed("set time zone 'UTC'"), set("timezone", "UTC"));
        assert_eq!(parsed("SET a.b = 5"), set("a.b", "5"));
        assert_eq!(parsed("show all"), Utility::Show(None));
        let level = Utility::Show(Some("transaction_isolation".to_owned()));
        assert_eq!(parsed("SHOW TRANSACTION ISOLATION LEVEL"), level);
    }
}
