//! Functions of PostgreSQL's that DataFusion does not have.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result as PlanResult, plan_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::errors::external;
use super::expression_parts::like_arguments;
use crate::catalogue::Sequences;
use crate::error::{SequenceSetting, SqlResult};
use crate::syntax::quoted;
use crate::types::SqlType;

/// What `version()` answers.
const VERSION: &str = concat!("PostgreSQL 15.0 (Namiki ", env!("CARGO_PKG_VERSION"), ")");

/// All functions of ours.
pub(super) fn all(sequences: &Arc<Sequences>) -> Vec<Arc<ScalarUDF>> {
    let mut functions: Vec<Arc<ScalarUDF>> = Vec::new();
    // Replaced before a plan is made (`prepare.rs`).
    for (name, of) in [
        ("now", SqlType::Timestamptz),
        ("transaction_timestamp", SqlType::Timestamptz),
        ("statement_timestamp", SqlType::Timestamptz),
        ("clock_timestamp", SqlType::Timestamptz),
        ("current_timestamp", SqlType::Timestamptz),
        ("localtimestamp", SqlType::Timestamp),
        ("current_date", SqlType::Date),
        ("current_user", SqlType::Text),
        ("session_user", SqlType::Text),
        ("current_role", SqlType::Text),
        ("user", SqlType::Text),
        ("current_database", SqlType::Text),
        ("current_catalog", SqlType::Text),
    ] {
        functions.push(simple(name, of, Some(0), |_| Answer::Null));
    }
    for (name, of, arguments, answer) in simple_functions() {
        functions.push(simple(name, of, arguments, answer));
    }
    for name in [
        "nextval", "setval", "currval", "lastval", NEXTVAL_OF, SETVAL_OF, CURRVAL_OF, LASTVAL_OF,
    ] {
        functions.push(Arc::new(ScalarUDF::from(SequenceFunction {
            name,
            sequences: Arc::clone(sequences),
            signature: if name == "lastval" {
                Signature::nullary(Volatility::Volatile)
            } else {
                Signature::variadic_any(Volatility::Volatile)
            },
        })));
    }
    functions
}

/// A function with the same answer for all rows, or one that depends on its arguments as texts.
type Compute = fn(&[Option<String>]) -> Answer;

enum Answer {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
}

type SimpleFunction = (&'static str, SqlType, Option<usize>, Compute);

fn argument(arguments: &[Option<String>], at: usize) -> Option<&str> {
    arguments.get(at).and_then(Option::as_deref)
}

/// Functions that psql and drivers call. There are no comments on objects here, and one role with all privileges.
fn simple_functions() -> Vec<SimpleFunction> {
    vec![
        ("version", SqlType::Text, Some(0), |_| {
            Answer::Text(VERSION.to_owned())
        }),
        ("current_schema", SqlType::Text, Some(0), |_| {
            Answer::Text("public".to_owned())
        }),
        ("pg_backend_pid", SqlType::Int4, Some(0), |_| {
            Answer::Number(std::process::id().into())
        }),
        ("pg_is_in_recovery", SqlType::Bool, Some(0), |_| {
            Answer::Bool(false)
        }),
        ("txid_current", SqlType::Int8, Some(0), |_| Answer::Null),
        ("pg_table_is_visible", SqlType::Bool, None, |_| {
            Answer::Bool(true)
        }),
        ("pg_type_is_visible", SqlType::Bool, None, |_| {
            Answer::Bool(true)
        }),
        ("pg_function_is_visible", SqlType::Bool, None, |_| {
            Answer::Bool(true)
        }),
        ("has_table_privilege", SqlType::Bool, None, |_| {
            Answer::Bool(true)
        }),
        ("has_schema_privilege", SqlType::Bool, None, |_| {
            Answer::Bool(true)
        }),
        ("has_database_privilege", SqlType::Bool, None, |_| {
            Answer::Bool(true)
        }),
        // Answered when a statement is planned (`prepare.rs`).
        ("pg_get_userbyid", SqlType::Text, None, |_| Answer::Null),
        ("pg_encoding_to_char", SqlType::Text, None, |_| {
            Answer::Text("UTF8".to_owned())
        }),
        ("obj_description", SqlType::Text, None, |_| Answer::Null),
        ("col_description", SqlType::Text, None, |_| Answer::Null),
        ("shobj_description", SqlType::Text, None, |_| Answer::Null),
        (
            "pg_get_statisticsobjdef_columns",
            SqlType::Text,
            None,
            |_| Answer::Null,
        ),
        ("pg_relation_is_publishable", SqlType::Bool, None, |_| {
            Answer::Bool(false)
        }),
        ("pg_get_partkeydef", SqlType::Text, None, |_| Answer::Null),
        ("pg_table_size", SqlType::Int8, None, |_| Answer::Null),
        ("pg_total_relation_size", SqlType::Int8, None, |_| {
            Answer::Null
        }),
        ("to_regtype", SqlType::Oid, Some(1), |arguments| {
            let name = argument(arguments, 0).unwrap_or_default().to_lowercase();
            let types = super::system_rows::TYPES;
            let found = types
                .iter()
                .find(|(of, short, _, _)| *short == name || of.name() == name);
            found.map_or(Answer::Null, |(of, ..)| Answer::Number(of.oid().into()))
        }),
        (
            "pg_size_pretty",
            SqlType::Text,
            None,
            |arguments| match argument(arguments, 0) {
                Some(bytes) => Answer::Text(format!("{bytes} bytes")),
                None => Answer::Null,
            },
        ),
        (
            "pg_get_expr",
            SqlType::Text,
            None,
            |arguments| match argument(arguments, 0) {
                Some(text) => Answer::Text(text.to_owned()),
                None => Answer::Null,
            },
        ),
        (
            "quote_ident",
            SqlType::Text,
            Some(1),
            |arguments| match argument(arguments, 0) {
                Some(name) => Answer::Text(quoted(name)),
                None => Answer::Null,
            },
        ),
        (
            "quote_literal",
            SqlType::Text,
            Some(1),
            |arguments| match argument(arguments, 0) {
                Some(text) => Answer::Text(format!("'{}'", text.replace('\'', "''"))),
                None => Answer::Null,
            },
        ),
        ("format_type", SqlType::Text, Some(2), |arguments| {
            let number = |at| argument(arguments, at).and_then(|it| it.parse::<i64>().ok());
            match number(0) {
                Some(oid) => Answer::Text(format_type(oid, number(1).unwrap_or(-1))),
                None => Answer::Null,
            }
        }),
        ("current_setting", SqlType::Text, None, |arguments| {
            let known = argument(arguments, 0).and_then(crate::settings::default_setting);
            known.map_or(Answer::Null, Answer::Text)
        }),
    ]
}

fn format_type(oid: i64, modifier: i64) -> String {
    let Some(of) = u32::try_from(oid).ok().and_then(SqlType::from_oid) else {
        return "???".to_owned();
    };
    match oid {
        1042 if modifier > 4 => format!("character({})", modifier - 4),
        1043 if modifier > 4 => format!("character varying({})", modifier - 4),
        1042 => "bpchar".to_owned(),
        1700 if modifier > 4 => {
            let both = modifier - 4;
            format!("numeric({},{})", both >> 16, both & 0xffff)
        }
        _ => of.name().to_owned(),
    }
}

fn simple(
    name: &'static str,
    of: SqlType,
    arguments: Option<usize>,
    compute: Compute,
) -> Arc<ScalarUDF> {
    let volatility = Volatility::Stable;
    let signature = match arguments {
        Some(0) => Signature::nullary(volatility),
        Some(count) => Signature::any(count, volatility),
        None => Signature::variadic_any(volatility),
    };
    Arc::new(ScalarUDF::from(Simple {
        name,
        of,
        compute,
        signature,
    }))
}

#[derive(Debug)]
struct Simple {
    name: &'static str,
    of: SqlType,
    compute: Compute,
    signature: Signature,
}

// Functions are told apart by their names.
impl PartialEq for Simple {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Simple {}

impl Hash for Simple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Simple {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(super::arrow_values::arrow_type(self.of))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = if args.args.is_empty() {
            1
        } else {
            args.number_rows
        };
        let arrays = args
            .args
            .iter()
            .map(|arg| arg.to_array(rows))
            .collect::<PlanResult<Vec<ArrayRef>>>()?;
        let mut texts: Vec<ArrayRef> = Vec::with_capacity(arrays.len());
        for array in &arrays {
            // Names of objects, numbers and the like all have texts.
            texts.push(datafusion::arrow::compute::cast(array, &DataType::Utf8)?);
        }
        let mut answers = Vec::with_capacity(rows);
        for row in 0..rows {
            let arguments: Vec<Option<String>> = texts
                .iter()
                .map(|array| {
                    let array = array.as_string::<i32>();
                    datafusion::arrow::array::Array::is_valid(array, row)
                        .then(|| array.value(row).to_owned())
                })
                .collect();
            answers.push((self.compute)(&arguments));
        }
        let texts = answers.iter().map(|answer| match answer {
            Answer::Null => None,
            Answer::Bool(value) => Some(value.to_string()),
            Answer::Number(number) => Some(number.to_string()),
            Answer::Text(text) => Some(text.clone()),
        });
        let array: ArrayRef = Arc::new(texts.collect::<StringArray>());
        let array =
            datafusion::arrow::compute::cast(&array, &super::arrow_values::arrow_type(self.of))?;
        if args.args.is_empty() {
            return Ok(ColumnarValue::Scalar(
                datafusion::scalar::ScalarValue::try_from_array(&array, 0)?,
            ));
        }
        if rows == 1 {
            return like_arguments(&args.args, array);
        }
        Ok(ColumnarValue::Array(array))
    }
}

const NEXTVAL_OF: &str = "nextval_of";
const SETVAL_OF: &str = "setval_of";
const CURRVAL_OF: &str = "currval_of";
const LASTVAL_OF: &str = "lastval_of";

/// The same function of a sequence's number and the session's, instead of the sequence's name.
pub(super) fn by_number(name: &str, state: &SessionState) -> PlanResult<Arc<ScalarUDF>> {
    let name = match name {
        "nextval" => NEXTVAL_OF,
        "setval" => SETVAL_OF,
        "currval" => CURRVAL_OF,
        _ => LASTVAL_OF,
    };
    let found = state.scalar_functions().get(name).cloned();
    found.ok_or_else(|| plan_datafusion_err!("there is no function {name}"))
}

#[derive(Debug)]
struct SequenceFunction {
    name: &'static str,
    sequences: Arc<Sequences>,
    signature: Signature,
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl SequenceFunction {
    /// The next number. Reserves a block where the thread may block; within a transaction, the caller reserves it.
    fn next(&self, id: u32) -> SqlResult<i64> {
        let first = self.sequences.next(id);
        match &first {
            Err(error) if error.sequence_to_refill().is_some() => {
                match self.sequences.refill_blocking(id) {
                    Err(error)
                        if matches!(error.core(), Some(namiki::Error::NestedTransaction)) =>
                    {
                        first
                    }
                    // The running transaction may have made it.
                    Err(error) if error.sqlstate() == crate::sqlstate::UNDEFINED_TABLE => first,
                    Err(error) => Err(error),
                    Ok(()) => self.sequences.next(id),
                }
            }
            _ => first,
        }
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let refused = |what: &str| external(crate::error::SqlError::unsupported(what));
        let number = |at: usize, row: usize| -> PlanResult<i64> {
            let array = args.args[at].to_array(args.number_rows)?;
            let array = datafusion::arrow::compute::cast(&array, &DataType::Int64)?;
            Ok(array.as_primitive::<Int64Type>().value(row))
        };
        let mut numbers = Vec::with_capacity(args.number_rows);
        let sequences = &self.sequences;
        for row in 0..args.number_rows {
            let of_sequence = || -> PlanResult<(u32, i64)> {
                Ok((u32::try_from(number(0, row)?).unwrap_or(0), number(1, row)?))
            };
            numbers.push(Some(match (self.name, args.args.len()) {
                (NEXTVAL_OF, 2) => {
                    let (id, session) = of_sequence()?;
                    let next = self.next(id).map_err(external)?;
                    sequences.note_given(session, id, next);
                    next
                }
                (CURRVAL_OF, 2) => {
                    let (id, session) = of_sequence()?;
                    sequences.last_given(session, id).map_err(external)?
                }
                (LASTVAL_OF, 1) => sequences
                    .last_given_of_any(number(0, row)?)
                    .map_err(external)?,
                (SETVAL_OF, 3 | 4) => {
                    let (id, session) = of_sequence()?;
                    let is_null = |at: usize| -> PlanResult<bool> {
                        match args.args.get(at) {
                            Some(arg) => {
                                let array = arg.to_array(args.number_rows)?;
                                // An array of nulls alone has no bits that say so.
                                Ok(array.is_null(row) || *array.data_type() == DataType::Null)
                            }
                            None => Ok(false),
                        }
                    };
                    if is_null(2)? || is_null(3)? {
                        numbers.push(None);
                        continue;
                    }
                    let number = number(2, row)?;
                    let is_given = match args.args.get(3) {
                        Some(flag) => flag.to_array(args.number_rows)?.as_boolean().value(row),
                        None => true,
                    };
                    let setting = SequenceSetting {
                        id,
                        number,
                        is_given,
                    };
                    let set = sequences.set_blocking(session, setting);
                    set.map_err(external)?;
                    if is_given {
                        sequences.note_set(session, id, number);
                    }
                    number
                }
                _ => return Err(refused("a sequence whose name is not a constant")),
            }));
        }
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(numbers))))
    }
}
