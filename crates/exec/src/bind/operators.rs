//! Binding of each operator.

use namiki_data::columns::{ColumnType, SCALE_MAX};

use super::access::Access;
use super::bound_plan::{AggregateNode, Keys, Node};
use super::column::{ColumnId, ColumnInfo, Field};
use super::key_bounds::KeyBounds;
use super::key_lists::KeyLists;
use super::scalar::{Scalar, Typed, bind, bind_condition};
use crate::error::{PlanError, TypeName};
use crate::plan::{
    Aggregate, AggregateCall, AggregateFunction, Expr, Filter, HashJoin, Join, KeyRange, Limit,
    NestedLoopJoin, Plan, Project, Sort,
};
use crate::source::Tables;

/// Limit of columns of a plan.
const COLUMNS_MAX: usize = 1 << 16;

/// Binds the operators of one plan.
pub(super) struct Binder<'t> {
    tables: &'t Tables,
    columns: Vec<ColumnInfo>,
}

type BoundNode = (Node, Vec<Field>);

impl<'t> Binder<'t> {
    pub(super) fn new(tables: &'t Tables) -> Self {
        Self {
            tables,
            columns: Vec::new(),
        }
    }

    pub(super) fn into_columns(self) -> Vec<ColumnInfo> {
        self.columns
    }

    /// Each operator has its own function, because the stack frame of this one exists once for each
    /// level.
    pub(super) fn bind(&mut self, plan: &Plan) -> Result<BoundNode, PlanError> {
        match plan {
            Plan::Find(find) => {
                let (alias, filter) = (find.alias.as_deref(), find.filter.as_ref());
                self.read(&find.table, None, alias, &KeyRange::default(), filter)
            }
            Plan::Join(join) => self.join(join),
            Plan::Scan(scan) => {
                let (alias, filter) = (scan.alias.as_deref(), scan.filter.as_ref());
                self.read(&scan.table, None, alias, &scan.range, filter)
            }
            Plan::IndexScan(scan) => {
                let (alias, filter) = (scan.alias.as_deref(), scan.filter.as_ref());
                self.read(&scan.table, Some(&scan.index), alias, &scan.range, filter)
            }
            Plan::NestedLoopJoin(join) => self.nested_loop(join),
            Plan::HashJoin(join) => self.hash_join(join),
            Plan::Filter(filter) => self.filter(filter),
            Plan::Project(project) => self.project(project),
            Plan::Aggregate(aggregate) => self.aggregate(aggregate),
            Plan::Sort(sort) => self.sort(sort),
            Plan::Limit(limit) => self.limit(limit),
        }
    }

    /// Without a choice: the access path that always works.
    #[inline(never)]
    fn join(&mut self, join: &Join) -> Result<BoundNode, PlanError> {
        self.hash_join(&HashJoin {
            build: join.left.clone(),
            probe: join.right.clone(),
            on: join.on.clone(),
            filter: join.filter.clone(),
            probe_first: false,
        })
    }

    #[inline(never)]
    fn filter(&mut self, filter: &Filter) -> Result<BoundNode, PlanError> {
        let (input, fields) = self.bind(&filter.input)?;
        let keep = bind_condition(&filter.keep, &fields, &self.columns)?;
        let input = Box::new(input);
        Ok((Node::Filter { input, keep }, fields))
    }

    #[inline(never)]
    fn limit(&mut self, limit: &Limit) -> Result<BoundNode, PlanError> {
        let (input, fields) = self.bind(&limit.input)?;
        let node = Node::Limit {
            input: Box::new(input),
            rows: limit.rows,
        };
        Ok((node, fields))
    }

    fn new_column(
        &mut self,
        column_type: ColumnType,
        nullable: bool,
    ) -> Result<ColumnId, PlanError> {
        if self.columns.len() == COLUMNS_MAX {
            return Err(PlanError::TooLarge {
                what: "columns",
                max: COLUMNS_MAX,
            });
        }
        self.columns.push(ColumnInfo {
            column_type: column_type.of_values(),
            nullable,
        });
        Ok(self.columns.len() - 1)
    }

    fn access(
        &mut self,
        table: &str,
        index: Option<&str>,
        alias: Option<&str>,
    ) -> Result<(Access, Vec<Field>), PlanError> {
        let called = alias.unwrap_or(table);
        let mut fields = Vec::new();
        let mut too_many = None;
        let access = Access::find(self.tables, table, index, |schema| {
            for column in schema.columns() {
                match self.new_column(column.column_type, column.nullable) {
                    Ok(id) => fields.push(Field {
                        table: called.to_owned(),
                        name: column.name.clone(),
                        id,
                    }),
                    Err(error) => {
                        too_many = Some(error);
                        break;
                    }
                }
            }
            fields.iter().map(|field| field.id).collect()
        })?;
        match too_many {
            Some(error) => Err(error),
            None => Ok((access, fields)),
        }
    }

    #[inline(never)]
    fn read(
        &mut self,
        table: &str,
        index: Option<&str>,
        alias: Option<&str>,
        range: &KeyRange,
        filter: Option<&Expr>,
    ) -> Result<BoundNode, PlanError> {
        let (access, fields) = self.access(table, index, alias)?;
        let wrong = |source| PlanError::WrongRange {
            table: access.table.clone(),
            source,
        };
        let schema = access.path().0.schema();
        let keys = if range.one_of.is_empty() {
            Keys::Range(KeyBounds::of(schema, range).map_err(wrong)?)
        } else {
            Keys::OneOf(KeyLists::of(&access.table, schema, range)?)
        };
        let filter = self.condition(filter, &fields)?;
        let node = Node::Read {
            access,
            keys,
            filter,
        };
        Ok((node, fields))
    }

    fn condition(
        &self,
        filter: Option<&Expr>,
        fields: &[Field],
    ) -> Result<Option<Scalar>, PlanError> {
        filter
            .map(|filter| bind_condition(filter, fields, &self.columns))
            .transpose()
    }

    #[inline(never)]
    fn nested_loop(&mut self, join: &NestedLoopJoin) -> Result<BoundNode, PlanError> {
        let (outer, mut fields) = self.bind(&join.outer)?;
        if join.lookup.is_empty() {
            return Err(PlanError::NothingToJoinOn);
        }
        let (access, inner) =
            self.access(&join.table, join.index.as_deref(), join.alias.as_deref())?;
        let schema = access.path().0.schema();
        if join.lookup.len() > schema.key().len() {
            return Err(PlanError::TooManyLookupValues {
                table: join.table.clone(),
                values: join.lookup.len(),
                columns: schema.key().len(),
            });
        }
        let mut lookup = Vec::with_capacity(join.lookup.len());
        for (expr, at) in join.lookup.iter().zip(schema.key()) {
            let typed = bind(expr, &fields, &self.columns)?;
            let own = schema.columns()[*at].column_type.of_values();
            lookup.push(cast_to(expr, typed, own)?);
        }
        fields = in_order(fields, inner, join.table_first);
        let filter = self.condition(join.filter.as_ref(), &fields)?;
        let node = Node::NestedLoop {
            outer: Box::new(outer),
            access,
            lookup,
            filter,
        };
        Ok((node, fields))
    }

    #[inline(never)]
    fn hash_join(&mut self, join: &HashJoin) -> Result<BoundNode, PlanError> {
        let (build, mut fields) = self.bind(&join.build)?;
        let (probe, probe_fields) = self.bind(&join.probe)?;
        if join.on.is_empty() {
            return Err(PlanError::NothingToJoinOn);
        }
        let mut on = Vec::with_capacity(join.on.len());
        for (of_build, of_probe) in &join.on {
            let left = bind(of_build, &fields, &self.columns)?;
            let right = bind(of_probe, &probe_fields, &self.columns)?;
            on.push(same_type(of_build, left, of_probe, right)?);
        }
        fields = in_order(fields, probe_fields, join.probe_first);
        let filter = self.condition(join.filter.as_ref(), &fields)?;
        let node = Node::HashJoin {
            build: Box::new(build),
            probe: Box::new(probe),
            on,
            filter,
        };
        Ok((node, fields))
    }

    /// An expression that gives a new column.
    fn calculated(
        &mut self,
        name: &str,
        of: &Expr,
        typed: Typed,
    ) -> Result<(Field, Scalar), PlanError> {
        let column_type = typed.column_type.ok_or_else(|| PlanError::WrongType {
            expression: of.to_string(),
            found: TypeName(None),
            expected: "a value of some type",
        })?;
        let id = self.new_column(column_type, typed.nullable)?;
        let field = Field {
            table: String::new(),
            name: name.to_owned(),
            id,
        };
        Ok((field, typed.scalar))
    }

    #[inline(never)]
    fn project(&mut self, project: &Project) -> Result<BoundNode, PlanError> {
        let (input, below) = self.bind(&project.input)?;
        let mut fields: Vec<Field> = Vec::new();
        let mut columns = Vec::new();
        for named in &project.columns {
            let typed = bind(&named.of, &below, &self.columns)?;
            let (field, scalar) = self.calculated(&named.name, &named.of, typed)?;
            columns.push((field.id, scalar));
            fields.push(field);
        }
        check_names(&fields)?;
        let input = Box::new(input);
        Ok((Node::Project { input, columns }, fields))
    }

    #[inline(never)]
    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<BoundNode, PlanError> {
        let (input, below) = self.bind(&aggregate.input)?;
        let mut fields = Vec::new();
        let mut groups = Vec::new();
        for named in &aggregate.group_by {
            let typed = bind(&named.of, &below, &self.columns)?;
            let (field, scalar) = self.calculated(&named.name, &named.of, typed)?;
            groups.push((field.id, scalar));
            fields.push(field);
        }
        let mut calls = Vec::new();
        for call in &aggregate.calculate {
            let of = match &call.of {
                Some(of) => Some((of, bind(of, &below, &self.columns)?)),
                None => None,
            };
            let (column_type, nullable) = result_of(call, of.as_ref())?;
            let id = self.new_column(column_type, nullable)?;
            calls.push((id, call.function, of.map(|(_, typed)| typed.scalar)));
            fields.push(Field {
                table: String::new(),
                name: call.name.clone(),
                id,
            });
        }
        check_names(&fields)?;
        let node = AggregateNode {
            input: Box::new(input),
            groups,
            calls,
        };
        Ok((Node::Aggregate(node), fields))
    }

    #[inline(never)]
    fn sort(&mut self, sort: &Sort) -> Result<BoundNode, PlanError> {
        let (input, fields) = self.bind(&sort.input)?;
        let mut by = Vec::with_capacity(sort.by.len());
        for key in &sort.by {
            let typed = bind(&key.of, &fields, &self.columns)?;
            by.push((typed.scalar, key.descending));
        }
        let node = Node::Sort {
            input: Box::new(input),
            by,
            all: fields.iter().map(|field| field.id).collect(),
        };
        Ok((node, fields))
    }
}

/// The columns of both inputs of a join.
fn in_order(first: Vec<Field>, second: Vec<Field>, swapped: bool) -> Vec<Field> {
    if swapped {
        [second, first].concat()
    } else {
        [first, second].concat()
    }
}

/// The type of what an aggregate calculates.
fn result_of(
    call: &AggregateCall,
    of: Option<&(&Expr, Typed)>,
) -> Result<(ColumnType, bool), PlanError> {
    if call.function == AggregateFunction::Count {
        return Ok((ColumnType::I64, false));
    }
    let Some((expr, typed)) = of else {
        let name = call.name.clone();
        return Err(PlanError::MissingArgument { name });
    };
    let wrong = |expected| PlanError::WrongType {
        expression: expr.to_string(),
        found: TypeName(typed.column_type),
        expected,
    };
    let own = typed
        .column_type
        .ok_or_else(|| wrong("a value of some type"))?;
    if matches!(
        call.function,
        AggregateFunction::Min | AggregateFunction::Max
    ) {
        return Ok((own, true));
    }
    let scale = match own {
        ColumnType::I64 | ColumnType::U64 => 0,
        own => own.scale().ok_or_else(|| wrong("a number"))?,
    };
    let more = if call.function == AggregateFunction::Avg {
        6
    } else {
        0
    };
    let digits = scale.saturating_add(more);
    if more > 0 && digits > SCALE_MAX {
        return Err(PlanError::TooPrecise {
            name: call.name.clone(),
            digits,
            digits_max: SCALE_MAX,
        });
    }
    Ok((ColumnType::Decimal { scale: digits }, true))
}

fn check_names(fields: &[Field]) -> Result<(), PlanError> {
    for (at, field) in fields.iter().enumerate() {
        if fields[..at].iter().any(|other| other.name == field.name) {
            return Err(PlanError::DuplicateColumn {
                column: field.name.clone(),
            });
        }
    }
    Ok(())
}

/// The look-up value of a column, with the column's type.
fn cast_to(expr: &Expr, typed: Typed, to: ColumnType) -> Result<Scalar, PlanError> {
    match typed.column_type {
        Some(own) if own == to => Ok(typed.scalar),
        None => Ok(typed.scalar),
        Some(own) if own.compares_with(to) => Ok(Scalar::Cast(Box::new(typed.scalar), to)),
        _ => Err(PlanError::WrongTypes {
            expression: expr.to_string(),
            left: TypeName(typed.column_type),
            right: TypeName(Some(to)),
        }),
    }
}

/// Two look-up values of a pair, as values of one type.
fn same_type(
    left_expr: &Expr,
    left: Typed,
    right_expr: &Expr,
    right: Typed,
) -> Result<(Scalar, Scalar), PlanError> {
    let (Some(a), Some(b)) = (left.column_type, right.column_type) else {
        return Ok((left.scalar, right.scalar));
    };
    if a == b {
        return Ok((left.scalar, right.scalar));
    }
    if !a.compares_with(b) {
        return Err(PlanError::WrongTypes {
            expression: format!("{left_expr} = {right_expr}"),
            left: TypeName(Some(a)),
            right: TypeName(Some(b)),
        });
    }
    let scale = |of: ColumnType| of.scale().unwrap_or_default();
    let to = ColumnType::Decimal {
        scale: scale(a).max(scale(b)),
    };
    let cast = |typed: Typed| Scalar::Cast(Box::new(typed.scalar), to);
    Ok((cast(left), cast(right)))
}
