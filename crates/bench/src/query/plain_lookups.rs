//! The paper's query as a program: loops over indexes on one thread, without an executor, over
//! resident pages. It is the baseline for the executor's cost where nothing has to be read.
//!
//! Paper: oode §3, figure 1

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use namiki_data::columns::{Datum, Schema, Value, key_codec, row_codec};
use namiki_exec::source::Tables;
use namiki_platform::disk::Frame;
use namiki_segment::{Cursor, Found, PageCache, PageReader, Segment};

/// Customers between two releases of the pages in use.
const CUSTOMERS_PER_RELEASE: u64 = 64;

/// The number of rows in the answer, and the seconds taken. `None` if a table or an index is
/// missing, or a page is not in the cache.
pub(crate) fn papers_query(
    balance_above: Datum,
    tables: &Tables,
    cache: &Arc<PageCache<Frame>>,
) -> Option<(Vec<Vec<Datum>>, f64)> {
    let by_balance = Sorted::of(tables, "customer", Some("c_mktsegment_acctbal"))?;
    let customer = Sorted::of(tables, "customer", None)?;
    let by_customer = Sorted::of(tables, "orders", Some("o_custkey"))?;
    let orders = Sorted::of(tables, "orders", None)?;
    let customer_of = by_balance.schema.column("c_custkey")?;
    let order_of = by_customer.schema.column("o_orderkey")?;
    let nation = customer.schema.column("c_nationkey")?;
    let price = orders.schema.column("o_totalprice")?;
    let segment = Datum::Text("AUTOMOBILE".to_owned());
    let of_segment = by_balance.key(std::slice::from_ref(&segment))?;
    let at_bound = by_balance.key(&[segment, balance_above])?;

    let end: Bound<Vec<u8>> = namiki_data::after_prefix(&of_segment);
    let end = match &end {
        Bound::Excluded(end) => Bound::Excluded(end.as_slice()),
        _ => Bound::Unbounded,
    };
    let pages = by_balance
        .segment
        .key_range_pages(Bound::Included(&at_bound), end);

    let mut reader = cache.reader();
    let mut groups = BTreeMap::new();
    let mut customers = 0_u64;
    let began = Instant::now();
    let mut cursor = by_balance.at(&reader, &at_bound)?;
    let (mut entry, mut order_entry, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
    // A page after the end of the range is not cached.
    while by_balance
        .segment
        .page_at(&cursor)
        .is_some_and(|page| pages.contains(&page.0))
        && by_balance.next(&reader, &mut cursor, &mut entry)?
    {
        if entry.starts_with(&at_bound) {
            continue;
        }
        if !entry.starts_with(&of_segment) {
            break;
        }
        let number = by_balance.integer(customer_of, &entry)?;
        let behind = by_customer.key(&[Datum::I64(number)])?;
        let nation = customer.get(&reader, &[Datum::I64(number)], |key, row| {
            integer(row_codec::column(
                customer.schema,
                nation,
                key,
                row,
                &mut scratch,
            )?)
        })?;
        let mut order_cursor = by_customer.at(&reader, &behind)?;
        while by_customer.next(&reader, &mut order_cursor, &mut order_entry)?
            && order_entry.starts_with(&behind)
        {
            let number = by_customer.integer(order_of, &order_entry)?;
            let price = orders.get(&reader, &[Datum::I64(number)], |key, row| {
                row_codec::column(orders.schema, price, key, row, &mut scratch)?.as_decimal()
            })?;
            let (sum, count): &mut (i128, i64) = groups.entry(nation).or_default();
            *sum += price.0;
            *count += 1;
        }
        customers += 1;
        if customers.is_multiple_of(CUSTOMERS_PER_RELEASE) {
            reader.release();
        }
    }
    reader.release();
    let seconds = began.elapsed().as_secs_f64();
    let rows = groups.into_iter().map(|(nation, (unscaled, count))| {
        vec![
            Datum::I64(nation),
            Datum::Decimal { unscaled, scale: 2 },
            Datum::I64(count),
        ]
    });
    Some((rows.collect(), seconds))
}

/// A table or an index, in one segment.
struct Sorted<'t> {
    schema: &'t Schema,
    segment: &'t Segment,
}

impl<'t> Sorted<'t> {
    fn of(tables: &'t Tables, table: &str, index: Option<&str>) -> Option<Self> {
        let table = tables.get(table)?;
        let source = match index {
            Some(index) => table.indexes.get(index)?,
            None => &table.source,
        };
        match source.segments()? {
            [segment] => Some(Self {
                schema: source.schema(),
                segment,
            }),
            _ => None,
        }
    }

    fn key(&self, values: &[Datum]) -> Option<Vec<u8>> {
        key_codec::encode_prefix(self.schema, values).ok()
    }

    fn at(&self, reader: &PageReader<Frame>, key: &[u8]) -> Option<Cursor> {
        let mut cursor = Cursor::default();
        match self.segment.position(reader, key, &mut cursor) {
            Found::Is(_) => Some(cursor),
            Found::Fault(_) => None,
        }
    }

    /// Takes the key of the next row, if there is one.
    fn next(
        &self,
        reader: &PageReader<Frame>,
        cursor: &mut Cursor,
        key: &mut Vec<u8>,
    ) -> Option<bool> {
        match self.segment.next(reader, cursor) {
            Found::Is(Some(row)) => {
                key.clear();
                row.key.append_to(key);
                Some(true)
            }
            Found::Is(None) => Some(false),
            Found::Fault(_) => None,
        }
    }

    fn get<T>(
        &self,
        reader: &PageReader<Frame>,
        key: &[Datum],
        take: impl FnOnce(&[u8], &[u8]) -> Option<T>,
    ) -> Option<T> {
        let key = self.key(key)?;
        match self.segment.get(reader, &key) {
            Found::Is(Some(row)) => take(&key, row.value.inline()?),
            Found::Is(None) | Found::Fault(_) => None,
        }
    }

    fn integer(&self, column: usize, key: &[u8]) -> Option<i64> {
        integer(row_codec::column(
            self.schema,
            column,
            key,
            &[],
            &mut Vec::new(),
        )?)
    }
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::I64(number) => Some(number),
        _ => None,
    }
}
